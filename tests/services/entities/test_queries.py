"""What the service answers, beside what it put out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import moneystate as ms
from moneystate.testing import Bench
from services.entities.config import Config
from services.entities.queries import Source
from services.entities.records import Created, CreateRequested, Deleted, Entity, EntityChanged, Patched
from services.entities.service import entities
from tests.services.entities.test_entities import bench_of, out, reference_of
from tests.services.entities.workload import CONFIG, IDS, send

T = 1_700_000_000_000


def asking(bench: Bench) -> Callable[..., Any]:
    return lambda name, *args, **named: bench.ask(bench.service.queries[name], *args, **named)


def j(text: str) -> ms.Json:
    return ms.Json(text)


@pytest.mark.parametrize("seed", range(8))
def test_every_version_that_ended_within_the_retention_is_what_it_was_then(seed: int) -> None:
    bench = bench_of(seed=seed)
    send(bench, seed, 120)
    ask = asking(bench)
    out(bench, "entities")
    now = bench.run.view().time_ms
    reference = reference_of(bench)
    older = 0
    for id, entity in reference.entities.items():
        since = now - CONFIG.history_retention_ms
        recent = [change for change in entity.history if change.time > since]
        assert ask("changes", id, limit=1_000) == recent
        older += len(entity.history) - len(recent)
        for change in recent:
            before = ask("entity_version", id, change.version - 1)
            assert (before.version, before.body) == (change.version - 1, change.before)
            assert (before.status == "ACTIVE") == (change.before is not None)
        for time in sorted({*range(since, now + 2_000, 1_000), *[change.time for change in recent]}):
            past = [change for change in entity.history if change.time <= time]
            answer = ask("entity_at", id, time)
            assert (answer.version, answer.body) == ((past[-1].version, past[-1].after) if past else (0, None))
        assert ask("entity_version", id, entity.version) == ask("entity", id)
        assert ask("entity", id).body == (entity.history[-1].after if entity.history else None)
        assert ask("entity_version", id, entity.version + 1) is None
        assert ask("entity_version", id, -1) is None
    assert older or seed


def test_what_is_older_than_the_retention_is_not_made_up() -> None:
    bench = Bench(entities(Config(history_retention_ms=1_000)), bound_ms=0)
    bench.send(Created("a", "e1", T, j('{"n":1}')), Patched("a", "e2", T + 500, j('{"n":2}')))
    bench.send(Patched("z", "e3", T + 1_250, j("{}")))
    ask = asking(bench)
    assert ask("entity_at", "a", T) is None
    assert ask("entity_version", "a", 0) is None
    assert ask("entity_at", "a", T + 300) == Entity("a", "ACTIVE", 1, j('{"n":1}'))
    assert [change.version for change in ask("changes", "a")] == [2]


def listing() -> Bench:
    config = Config(fields=("/country", "/address/zip code", "/a~1b", "/vip"))
    bench = Bench(entities(config), bound_ms=0)
    for number, id in enumerate(["b", "a", "ab", "c"]):
        bench.send(
            Created(id, "e1", T + number, j('{"country":"DE","address":{"zip code":70.10},"a/b":"x","vip":true}'))
        )
    bench.send(Patched("u", "e1", T + 9, j('{"country":"DE"}')))
    bench.send(Deleted("c", "e2", T + 10), Patched("b", "e3", T + 10, j('{"country":"FR"}')))
    return bench


def ids(listed: list[Entity]) -> list[str]:
    return [entity.entity_id for entity in listed]


def test_entities_are_listed_by_status_page_by_page() -> None:
    ask = asking(listing())
    assert ids(ask("list_by_status", "ACTIVE")) == ["a", "ab", "b"]
    assert ids(ask("list_by_status", "ACTIVE", limit=2)) == ["a", "ab"]
    assert ids(ask("list_by_status", "ACTIVE", after="a", limit=2)) == ["ab", "b"]
    assert ids(ask("list_by_status", "ACTIVE", after="b")) == []
    assert ids(ask("list_by_status", "DELETED")) == ["c"]
    assert ids(ask("list_by_status", "UNKNOWN")) == ["u"]


def test_entities_are_listed_by_configured_fields() -> None:
    ask = asking(listing())
    assert ids(ask("list_by_field", "/country", "DE")) == ["a", "ab"]
    assert ids(ask("list_by_field", "/country", "DE", after="a")) == ["ab"]
    assert ids(ask("list_by_field", "/country", "FR")) == ["b"]
    assert ids(ask("list_by_field", "/address/zip code", "70.10", limit=1)) == ["a"]
    assert ids(ask("list_by_field", "/a~1b", "x")) == ["a", "ab", "b"]
    assert ids(ask("list_by_field", "/vip", "true")) == ["a", "ab", "b"]
    assert ids(ask("list_by_field", "/country", "D")) == []


def test_each_field_names_what_it_is_from() -> None:
    bench = Bench(entities(replace(CONFIG, merge_window_ms=10_000)), bound_ms=0)
    bench.send(CreateRequested("c1", "a", T + 5, j('{"n":1,"m":{"x":1}}')))
    bench.send(Patched("a", "e1", T, j('{"n":0,"m":{"y":2}}')))
    bench.send(Patched("u", "e1", T, j('{"n":1}')))
    ask = asking(bench)
    assert ask("sources", "a") == [Source("/m/x", "c1", T + 5), Source("/m/y", "e1", T), Source("/n", "c1", T + 5)]
    assert ask("sources", "u") == []
    bench.send(Patched("a", "e2", T + 10_003, j('{"k":0}')))
    assert ask("sources", "a") == [
        Source("/k", "e2", T + 10_003),
        Source("/m/x", "c1", T + 5),
        Source("/m/y", None, None),
        Source("/n", "c1", T + 5),
    ]


def test_an_entity_that_nobody_has_heard_of_is_unknown() -> None:
    ask = asking(bench_of())
    assert ask("entity", IDS[0]) == Entity(IDS[0], "UNKNOWN", 0, None)
    assert ask("changes", IDS[0]) == ask("sources", IDS[0]) == []


def test_of_a_change_that_is_too_large_the_body_is_not_kept() -> None:
    bench = Bench(entities(Config()), bound_ms=0)
    bench.send(Created("a", "e1", T, j(f'{{"n":"{"x" * 950_000}"}}')), Patched("a", "e2", T + 1, j('{"n":1}')))
    ask = asking(bench)
    assert ask("entity_version", "a", 1) == Entity("a", "ACTIVE", 1, None, True)
    assert ask("changes", "a")[1] == EntityChanged("a", 2, T + 1, None, None, "e2", True)


def test_changes_that_are_kept_are_those_that_were_put_out() -> None:
    bench = Bench(entities(Config()), bound_ms=0)
    for n, x in enumerate([500_000, 500_000, 399_000, 800_000, 950_000, 1]):
        body = j(f'{{"n":"{chr(97 + n) * x}"}}')
        bench.send(Patched("a", f"e{n}", T + n, body) if n else Created("a", "e0", T, body))
        changes = out(bench, "entity-changes")
        assert asking(bench)("changes", "a") == changes
    assert [change.too_large for change in changes] == [False, True, False, True, True, True]
