"""Rule by rule, the edges of times and sizes among them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

import moneystate as ms
from moneystate.errors import ServiceError
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench
from moneystate.testing.run import Run, Sent, Whole
from services.entities.config import Config
from services.entities.merge import cause_and_time
from services.entities.records import (
    CommandResult,
    Created,
    CreateRequested,
    Deleted,
    DeleteRequested,
    Entity,
    EntityChanged,
    Patched,
    PatchRequested,
    Stored,
)
from services.entities.service import entities
from services.entities.texts import merge_of
from tests.services.entities.test_entities import out

T = 1_700_000_000_000
WINDOW = 60_000
CONFIG = Config(merge_window_ms=WINDOW, command_retention_ms=20_000, history_retention_ms=40_000, fields=("/n",))


def j(text: str) -> ms.Json:
    return ms.Json(text)


def bench_of(*records: Any, config: Config = CONFIG, bound_ms: int = 5_000) -> Bench:
    bench = Bench(entities(config), bound_ms=bound_ms)
    bench.send(*records)
    return bench


def stored(bench: Bench, id: str = "a") -> Stored:
    record: Any = bench.state(bench.service.states["stored"], id)
    assert isinstance(record, Stored)
    return record


def results(bench: Bench) -> list[tuple[str, Any, int]]:
    return [(result.command_id, result.reason, result.version) for result in out(bench, "entity-command-results")]


def test_a_change_is_told_with_what_was_before_and_after() -> None:
    bench = bench_of(
        Created("a", "e1", T, j('{"n":1.50,"x":{"y":[1]}}')),
        Patched("a", "e2", T + 1, j('{"x":{"y":null},"n":2}')),
        Deleted("a", "e3", T + 2),
    )
    one, two = j('{"n":1.50,"x":{"y":[1]}}'), j('{"n":2,"x":{}}')
    assert out(bench, "entity-changes") == [
        EntityChanged("a", 1, T, None, one, "e1"),
        EntityChanged("a", 2, T + 1, one, two, "e2"),
        EntityChanged("a", 3, T + 2, two, None, "e3"),
    ]
    assert out(bench, "entities") == [
        Entity("a", "ACTIVE", 1, one),
        Entity("a", "ACTIVE", 2, two),
        Entity("a", "DELETED", 3, None),
    ]


def test_numbers_stay_as_written_and_another_writing_is_a_change() -> None:
    bench = bench_of(Created("a", "e1", T, j('{"n":1.0}')), Patched("a", "e2", T + 1, j('{"n":1.00}')))
    assert [change.after for change in out(bench, "entity-changes")] == [j('{"n":1.0}'), j('{"n":1.00}')]


def test_every_order_of_arrival_of_events_gives_the_same_entity() -> None:
    events = [
        Created("a", "e1", T, j('{"n":1,"m":{"x":1}}')),
        Patched("a", "e2", T + 1, j('{"m":{"y":2},"n":null}')),
        Deleted("a", "e3", T + 2),
        Patched("a", "e4", T + 2, j('{"m":{"z":3}}')),  # behind the deletion, as its id is greater
        Created("a", "e5", T + 3, j('{"k":[]}')),
    ]
    merges = []
    for order in [*permutations(events)][::3]:
        bench = bench_of(*order)
        merges.append(merge_of(stored(bench).text))
        assert out(bench, "entities")[-1].body == j('{"m":{"z":3},"k":[]}')
    assert all(merge == merges[0] for merge in merges)


def test_patches_of_an_entity_that_is_not_active_are_kept_unseen() -> None:
    bench = bench_of(
        Patched("a", "e1", T, j('{"n":1}')),
        Deleted("b", "e2", T),
        Patched("b", "e3", T + 1, j('{"n":3}')),
    )
    assert out(bench, "entity-changes") == []
    assert (stored(bench).status, stored(bench, "b").status) == ("UNKNOWN", "DELETED")
    bench.send(Created("a", "e4", T + 2, j('{"m":4}')), Created("b", "e5", T + 2, j("{}")))
    assert [change.after for change in out(bench, "entity-changes")] == [j('{"m":4,"n":1}'), j('{"n":3}')]


@pytest.mark.parametrize(("later_ms", "too_old"), [(WINDOW - 1, 0), (WINDOW, 1)])
def test_an_event_at_the_end_of_the_merge_window_is_too_old(later_ms: int, too_old: int) -> None:
    bench = bench_of(
        Created("a", "e1", T + later_ms, j("{}")),
        Patched("a", "e2", T, j('{"n":1}')),
        Patched("a", "e2", T + later_ms, j('{"n":2}')),  # what was dropped is not known
        bound_ms=0,
    )
    assert bench.count("too_old") == too_old
    assert bench.count("conflicts") == 1 - too_old
    assert out(bench, "entities")[-1].body == j('{"n":2}' if too_old else '{"n":1}')


def test_stamps_older_than_the_merge_window_are_forgotten_and_those_at_its_edge_are_not() -> None:
    early = [Created("a", "e0", T - 1, j('{"m":1}')), Patched("a", "e5", T, j('{"n":5}'))]
    last = Patched("a", "e9", T + WINDOW - 1, j("{}"))
    assert [cause_and_time(stamp)[0] for stamp in merge_of(stored(bench_of(*early, last, bound_ms=0)).text).stamps] == [
        "e5"
    ]
    late = Patched("a", "e1", T, j('{"n":1,"m":2}'))  # as late as can be, and before e5
    bench = bench_of(*early, last, late, bound_ms=0)
    assert out(bench, "entities")[-1].body == j('{"m":2,"n":5}')
    bench.send(Patched("a", "e99", T + 3 * WINDOW, j("{}")))
    assert merge_of(stored(bench).text).stamps == []
    assert (stored(bench).status, stored(bench).version) == ("ACTIVE", 3)


def test_an_event_again_is_a_duplicate_and_another_with_its_id_a_conflict() -> None:
    first = Created("a", "e1", T, j('{"n":1,"m":2}'))
    others = [
        Created("a", "e1", T, j('{"m":2,"n":1.0}')),
        Created("a", "e1", T + 1, first.body),
        Patched("a", "e1", T, first.body),
        Deleted("a", "e1", T),
    ]
    bench = bench_of(first, Created("a", "e1", T, j('{"m":2, "n":1}')), *others)
    assert (bench.count("duplicates"), bench.count("conflicts")) == (1, 4)
    assert sorted(map(repr, out(bench, "entity-conflicts"))) == sorted(map(repr, others))
    assert len(out(bench, "entity-changes")) == 1


@pytest.mark.parametrize(("later_ms", "conflicts"), [(WINDOW - 1, 1), (WINDOW, 0)])
def test_an_event_id_is_known_for_the_merge_window_after_it_became_known(later_ms: int, conflicts: int) -> None:
    late = Created("a", "e1", T - 30_000, j("{}"))
    again = Patched("a", "e1", T + later_ms, j('{"n":1}'))
    bench = bench_of(Patched("z", "e0", T, j("{}")), late, again, bound_ms=0)
    assert (bench.count("conflicts"), stored(bench).version) == (conflicts, 2 - conflicts)


def test_commands_change_the_entity_or_say_why_not() -> None:
    bench = bench_of(
        PatchRequested("c1", "a", T, j("{}")),
        CreateRequested("c2", "a", T + 1, j('{"n":1}')),
        CreateRequested("c3", "a", T + 2, j('{"n":2}')),
        PatchRequested("c4", "a", T + 3, j('{"n":3}'), 7),
        PatchRequested("c5", "a", T + 4, j('{"n":3}'), 1),
        PatchRequested("c6", "a", T + 5, j('{"n":3}')),
        DeleteRequested("c7", "a", T + 6, 3),
        DeleteRequested("c8", "a", T + 7),
        DeleteRequested("c9", "a", T + 8),
    )
    assert results(bench) == [
        ("c1", "NOT_ACTIVE", 0),
        ("c2", None, 1),
        ("c3", "ALREADY_ACTIVE", 1),
        ("c4", "VERSION_MISMATCH", 1),
        ("c5", None, 2),
        ("c6", None, 2),
        ("c7", "VERSION_MISMATCH", 2),
        ("c8", None, 3),
        ("c9", "NOT_ACTIVE", 3),
    ]
    assert [change.cause for change in out(bench, "entity-changes")] == ["c2", "c5", "c8"]


def test_a_command_again_gets_the_same_result_and_another_with_its_id_a_conflict() -> None:
    bench = bench_of(
        CreateRequested("c1", "a", T, j('{"n":1}')),
        PatchRequested("c2", "a", T + 1, j('{"n":2}')),
        CreateRequested("c1", "a", T + 2, j('{"n":1}')),
        CreateRequested("c1", "a", T + 3, j('{"n":2}')),
        PatchRequested("c2", "a", T + 4, j('{"n":2}'), 2),
    )
    assert out(bench, "entity-command-results")[2:] == [
        CommandResult("c1", "a", "ACCEPTED", None, 1),
        CommandResult("c1", "a", "REJECTED", "ID_CONFLICT", 2),
        CommandResult("c2", "a", "REJECTED", "ID_CONFLICT", 2),
    ]


def test_a_command_id_is_known_for_the_retention() -> None:
    bench = bench_of(DeleteRequested("c1", "a", T), CreateRequested("c2", "a", T + 1, j("{}")))
    bench.send(DeleteRequested("c1", "a", T + 19_999))
    bench.send(DeleteRequested("c1", "a", T + 20_000))
    assert [reason for _, reason, _ in results(bench)] == ["NOT_ACTIVE", None, "NOT_ACTIVE", None]


def test_a_command_is_newer_than_all_events_of_its_time_and_than_commands_before_it() -> None:
    bench = bench_of(
        CreateRequested("c9", "a", T, j('{"n":9}')),
        PatchRequested("c1", "a", T, j('{"n":1}')),
        Patched("a", "zz", T, j('{"n":0}')),
    )
    assert out(bench, "entities")[-1].body == j('{"n":1}')


def test_a_late_event_is_merged_where_its_time_says_and_told_at_its_order_time() -> None:
    bench = bench_of(
        CreateRequested("c1", "a", T + 100, j('{"n":1}')),
        Patched("a", "e2", T + 200, j("{}")),
        Patched("a", "e3", T + 50, j('{"n":0,"m":3}')),
        bound_ms=0,
    )
    assert out(bench, "entity-changes")[-1] == EntityChanged("a", 2, T + 200, j('{"n":1}'), j('{"m":3,"n":1}'), "e3")


@pytest.mark.parametrize("body", ["[]", "1", "null", '"a"'])
def test_a_body_that_is_no_object_is_a_dead_letter(body: str) -> None:
    bench = bench_of(Created("a", "e1", T, j(body)), CreateRequested("c1", "a", T, j(body)))
    assert bench.dead_letters() == ["not_an_object"] * 2
    assert results(bench) == []


def test_an_id_too_long_for_an_entry_is_a_dead_letter() -> None:
    long = "ü" * 501
    bench = bench_of(Deleted(long, "e1", T), Deleted("a", long, T), DeleteRequested(long, "a", T))
    assert bench.dead_letters() == ["id_too_long"] * 3


def test_large_bodies_are_left_out_of_changes_and_the_entity_stays_whole() -> None:
    texts = ["ü" * 60_000, "x" * 440_000, "y" * 440_000]  # 120 kB, 560 kB, 1 MB in all
    bench = bench_of(
        Created("a", "e1", T, j(f'{{"a":"{texts[0]}"}}')),
        Patched("a", "e2", T + 1, j(f'{{"b":"{texts[1]}"}}')),
        Patched("a", "e3", T + 2, j(f'{{"c":"{texts[2]}"}}')),
        Patched("a", "e4", T + 3, j('{"b":null,"c":null}')),
        Patched("a", "e5", T + 4, j('{"n":1}')),
    )
    changes = out(bench, "entity-changes")
    assert [change.too_large for change in changes] == [False, False, True, True, False]
    assert all((change.before is None and change.after is None) == change.too_large for change in changes)
    assert [(e.too_large, e.body is None) for e in out(bench, "entities")] == [
        (large, large) for large in (False, False, True, False, False)
    ]
    assert out(bench, "entities")[-1].body == j(f'{{"a":"{texts[0]}","n":1}}')
    assert stored(bench).pieces == 0
    assert bench.state(bench.service.states["pieces"], "a") == {}
    bench.end()
    assert max(len(value) for _, value in bench.entries()) < 1_000_000


def test_an_entity_of_many_megabytes_is_kept_in_entries_that_kafka_takes() -> None:
    creates = [Patched("a", f"e{n}", T + n, j(f'{{"{n}":"{"x" * 100_000}"}}')) for n in range(30)]
    bench = bench_of(*creates, Created("a", "z", T + 99, j("{}")))
    assert max(len(value) for _, value in bench.entries()) < 1_000_000
    body: Any = bench.ask(bench.service.queries["entity"], "a").body
    assert body.text.count("x") == 3_000_000


@pytest.mark.parametrize("format", ["json", "avro"])
def test_topics_can_be_json_or_avro(format: Any) -> None:
    bench = Bench(entities(replace(CONFIG, format=format)))
    for topic, record in [
        ("entity-events", Created("a", "e1", T, j('{"n":1.50}'))),
        ("entity-commands", PatchRequested("c1", "a", T + 1, j('{"m":[]}'), 1)),
        ("entity-events", Deleted("a", "e2", T + 2)),
    ]:
        plan = bench.first.planned(record, None)
        assert plan is not None
        codec = plan.codec
        bench.send_raw(topic, codec.to_json(record) if format == "json" else codec.encode(record))
        bench.send_raw(topic, codec.encode(record) if format == "json" else codec.to_json(record))
    assert [change.after for change in out(bench, "entity-changes")] == [j('{"n":1.50}'), j('{"m":[],"n":1.50}'), None]
    assert len(bench.dead_letters()) == 3
    assert {output.format for output in bench.service.outputs} == {format}
    assert {output.topic for output in bench.service.outputs if output.compacted} == {"entities"}


@pytest.mark.parametrize(
    "members",
    [
        {"type": "Renamed"},
        {"eventId": 7},
        {"time": "noon"},
        {"time": None},
        {"body": None},
        {"body": ...},
        {"entityId": ...},
        {"eventId": ...},
    ],
)
def test_an_unknown_type_and_a_missing_or_wrong_field_make_a_dead_letter(members: dict[str, Any]) -> None:
    event = {"type": "Patched", "entityId": "a", "eventId": "e1", "time": T, "body": {"n": 1}}
    bench = bench_of()
    for each in (event, {name: value for name, value in {**event, **members}.items() if value is not ...}):
        bench.send_raw("entity-events", json.dumps(each))
    assert len(bench.dead_letters()) == 1
    assert merge_of(stored(bench).text).document == {"n": "1"}


@pytest.mark.parametrize(("ahead_ms", "letters"), [(5_000, []), (5_001, ["too_far_ahead"])])
def test_a_command_may_be_five_seconds_ahead_and_an_event_as_far_as_the_run_says(
    ahead_ms: int, letters: list[str]
) -> None:
    bench = bench_of()
    command = {"type": "CreateRequested", "commandId": "c", "entityId": "a", "time": T + ahead_ms, "body": {}}
    event = {"type": "Patched", "entityId": "a", "eventId": "e", "time": T + ahead_ms, "body": {}}
    bench.send_raw("entity-commands", json.dumps(command), timestamp_ms=T)
    bench.send_raw("entity-events", json.dumps(event), timestamp_ms=T)
    assert bench.dead_letters() == letters


@pytest.mark.parametrize(("inputs", "waits_ms"), [("both", 20_000), ("commands", 0)])
def test_a_command_waits_for_the_bound_of_the_events_unless_they_are_not_read(inputs: Any, waits_ms: int) -> None:
    plan = Plan(entities(replace(CONFIG, inputs=inputs)))
    run = Run(plan, 20_000, {topic.code: 1 for topic in plan.input_topics()}, 1, False)
    for topic in plan.input_topics():
        value = {"entityId": "a", "time": T, "body": {}}
        ids = {"type": "Patched", "eventId": "e"}
        if topic.name == "entity-commands":
            ids = {"type": "CreateRequested", "commandId": "c"}
        whole = Whole(None, json.dumps({**value, **ids}).encode(), {}, -1, True)
        run.batch([Sent(topic.code, 0, 0, whole.value or b"", whole)])
    assert run.sim.watermark == T - waits_ms


@pytest.mark.parametrize(("inputs", "topic"), [("events", "entity-events"), ("commands", "entity-commands")])
def test_an_input_can_be_left_out(inputs: Any, topic: str) -> None:
    service = entities(Config(inputs=inputs))
    assert {declared.topic for declared in service.inputs} == {topic}


@pytest.mark.parametrize("config", [Config(merge_window_ms=0), Config(fields=("country",))])
def test_what_cannot_be_configured_is_refused(config: Config) -> None:
    with pytest.raises(ServiceError):
        entities(config)


def test_nothing_stays_of_what_is_known_for_a_time_and_the_entity_does() -> None:
    bench = bench_of(Created("a", "e1", T, j("{}")), PatchRequested("c1", "a", T + 1, j('{"n":1}')))
    bench.end()
    assert [key[:8] for key, _ in bench.entries()] == [b"v\x06stored"]
