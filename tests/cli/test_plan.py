"""`moneystate plan` and `run --approved`: what a start would change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moneystate.cli import main
from moneystate.cli.plan import check_approved
from moneystate.devbroker import DevBroker
from moneystate.engine import plan as plans
from moneystate.engine.marker import Marker, marker_key
from moneystate.engine.plan import PartitionPlan, Plan
from moneystate.errors import CheckpointError, ConfigError, MoneystateError, RulesError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.deployment import JobChange, changes
from moneystate.job.initial import check_fits
from moneystate.job.startup import check_existing, other_code, settings_of, written_part
from moneystate.job.state_checks import check_readable
from moneystate.ports.service import UNIQUE_STATE, JobSpec
from moneystate.runtime.job import job_spec
from moneystate.savepoint.manifest import FileInfo, Manifest

ORDERS = "examples.orders.orders:service"
SETTINGS = settings_of("orders", 64, 4, "orders", "")

Plans = Callable[..., tuple[int, Any]]


def existing(folder: Path, rules: dict[str, Any], topics: tuple[str, ...], *, unfinished: bool = False) -> Checkpoint:
    """A checkpoint whose last batch was planned by `rules`."""
    checkpoint = Checkpoint(str(folder))
    checkpoint.begin(SETTINGS, {"superseded": []})
    checkpoint.keep_rules(rules)
    partitions = {(topic, 0): PartitionPlan(7, plans.ACTIVE) for topic in topics}
    plan = Plan(plans.rules_hash(rules), dict.fromkeys(topics, "id"), partitions)
    for name in ("offsets", "commits"):
        (folder / name).mkdir()
    (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(plan.to_offset())}")
    if not unfinished:
        (folder / "commits" / "0").write_text("v1\n{}")
    return checkpoint


def told(spec: JobSpec, checkpoint: Checkpoint, **settings: Any) -> list[tuple[str, str, bool]]:
    return [(c.part, c.name, c.refused) for c in changes(spec, {**SETTINGS, **settings}, checkpoint)]


def test_each_thing_that_a_start_changes_is_told(tmp_path: Path) -> None:
    before = dict(job_spec(ORDERS, {}).rules)
    same = existing(tmp_path / "a", before, ("orders", "payments"))
    assert told(job_spec(ORDERS, {}), same) == []
    assert told(job_spec(ORDERS, {"wait_ms": 1}), same) == [("rule", "wait_ms", False)]
    assert told(job_spec(ORDERS, {}), same, key_groups=128) == [("setting", "key_groups", True)]
    fewer = existing(tmp_path / "b", {**before, "known_schemas": before["known_schemas"][1:]}, ("orders", "old"))
    assert told(job_spec(ORDERS, {}), fewer) == [
        ("input", "payments", False),
        ("input", "old", False),
        ("schema", "known", False),
    ]
    newer = existing(tmp_path / "c", {**before, "state_versions": 9, "logic": 0}, ("orders", "payments"))
    assert told(job_spec(ORDERS, {}), newer) == [("state", "versions", True), ("program", "logic", False)]
    unfinished = existing(tmp_path / "d", before, ("orders", "payments"), unfinished=True)
    assert told(job_spec(ORDERS, {"wait_ms": 1}), unfinished)[0] == ("batch", "0", True)
    assert told(job_spec(ORDERS, {}), Checkpoint(str(tmp_path / "none"))) == [("checkpoint", "orders", False)]


def savepoint(rules: dict[str, Any], topics: tuple[str, ...], key_groups: int = 64) -> Manifest:
    partitions = {(topic, 0): PartitionPlan(7, plans.ACTIVE) for topic in topics}
    plan = Plan("", dict.fromkeys(topics, "id"), partitions).to_offset()
    return Manifest("export", "", "orders", [], rules, key_groups, 4, plan, 0, {}, "", [])


def test_a_start_from_a_savepoint_is_compared_with_it(tmp_path: Path) -> None:
    new, spec = Checkpoint(str(tmp_path / "none")), job_spec(ORDERS, {"wait_ms": 1})
    before = dict(job_spec(ORDERS, {}).rules)

    def told_of(manifest: Manifest) -> list[tuple[str, str, bool]]:
        return [(c.part, c.name, c.refused) for c in changes(spec, SETTINGS, new, manifest)]

    begins = ("checkpoint", "orders", False)
    assert told_of(savepoint(dict(spec.rules), ("orders", "payments"))) == [begins]
    assert told_of(savepoint({**before, "state_versions": 9}, ("orders", "payments"), 8)) == [
        begins, ("setting", "key_groups", True), ("rule", "wait_ms", True), ("state", "versions", True),
    ]  # fmt: skip
    fewer = {**spec.rules, "topics": {"orders": 0}, "bounds": {"orders": 5}}
    assert told_of(savepoint(fewer, ("orders",))) == [begins, ("rule", "bounds", True), ("input", "payments", False)]


def test_an_input_that_is_added_is_no_other_rule(tmp_path: Path) -> None:
    """Neither for a planned batch nor for a savepoint, whatever limits it brings with it."""
    fewer = {**job_spec(ORDERS, {}).rules, "topics": {"orders": 0}}
    more = {**job_spec(ORDERS, {}).rules, "bounds": {"payments": 5}, "timed": ["payments"]}
    unfinished = existing(tmp_path, fewer, ("orders",), unfinished=True)
    unfinished.check_rules(more)
    assert list(unfinished.changed_rules(more)) == ["topics", "bounds", "timed"]
    check_fits(savepoint(fewer, ("orders",)), "orders", 64, more, [])
    unfinished.check_rules({**more, "topics": {"orders": 0}})
    with pytest.raises(RulesError, match="changed are topics"):
        unfinished.check_rules({**more, "topics": {"orders": 1, "payments": 0}})


def test_an_input_does_not_become_a_timed_stream(tmp_path: Path) -> None:
    before, after = job_spec(ORDERS, {}).rules, {**job_spec(ORDERS, {}).rules, "timed": ["orders"]}
    for then, now, says in (
        (before, after, "an ordinary input in orders"),
        (after, before, "a timed stream in orders"),
    ):
        checkpoint = existing(tmp_path / says, dict(then), ("orders", "payments"))
        with pytest.raises(RulesError, match=f"expected {says}"):
            check_existing(checkpoint, SETTINGS, now, finish_batch=False, reads_replies=False)
        with pytest.raises(RulesError, match=f"--initial-state: expected {says}"):
            check_fits(savepoint(dict(then), ("orders",)), "orders", 64, now, [])
        spec = replace(job_spec(ORDERS, {}), rules=now)
        assert told(spec, checkpoint) == [("input", "orders", True)]


def test_a_text_that_becomes_json_is_told(tmp_path: Path) -> None:
    job = job_spec("services.joining.service:joining", {"services": ["a", "b"]})
    assert "Part.body" in job.rules["json_fields"]
    assert "json_fields" not in job_spec(ORDERS, {}).rules
    checkpoint = existing(tmp_path, dict(job_spec(ORDERS, {}).rules), ("orders", "payments"))
    spec = replace(job_spec(ORDERS, {}), rules={**job_spec(ORDERS, {}).rules, "json_fields": ["OrderPlaced.customer"]})
    assert told(spec, checkpoint) == [("schema", "JSON fields", False)]


def test_other_functions_are_told(tmp_path: Path) -> None:
    job = job_spec(ORDERS, {})
    checkpoint = existing(tmp_path, dict(job.rules), ("orders", "payments"))
    assert told(job, checkpoint) == []
    checkpoint.keep_code(job.code, job.functions)
    assert told(job, checkpoint) == []
    assert told(replace(job, code="edited"), checkpoint) == [("program", "functions", False)]


def test_the_functions_that_changed_are_named(tmp_path: Path) -> None:
    job = job_spec(ORDERS, {})
    assert {"place", "take", "expire"} <= set(job.functions)
    checkpoint = existing(tmp_path, dict(job.rules), ("orders", "payments"))
    checkpoint.keep_code("as it was", {**job.functions, "take": "0a", "gone": "0b"})
    (change,) = changes(job, SETTINGS, checkpoint)
    assert (change.before, change.after) == ({"take": "0a", "gone": "0b"}, {"take": job.functions["take"]})
    assert change.effect.startswith("gone, take: from the next batch on")


def ids_of(job: JobSpec) -> dict[str, list[str]]:
    """The form of the ids of `unique`, as the rules of a checkpoint have it."""
    return {state: its for state, its in job.rules["state_schemas"].items() if state.startswith(UNIQUE_STATE)}


def test_the_records_that_changed_are_named(tmp_path: Path) -> None:
    job = job_spec(ORDERS, {})
    (schema,) = job.rules["state_schemas"]["value order"]
    before = {**job.rules, "state_schemas": {**ids_of(job), "value order": []}, "state_versions": 0}
    now = replace(job, rules={**job.rules, "state_schemas": {"value order": [schema]}})
    (change,) = changes(now, SETTINGS, existing(tmp_path, before, ("orders", "payments")))
    assert (change.name, change.effect.partition(":")[0]) == ("versions", "value order")


def test_functions_that_were_edited_after_a_part_of_a_batch_was_written_are_warned_of(tmp_path: Path) -> None:
    checkpoint = existing(tmp_path, dict(job_spec(ORDERS, {}).rules), ("orders",), unfinished=True)
    epoch = str(checkpoint.epoch())
    before = {marker_key("orders", 1): Marker(epoch, 0, "")}
    part = {**before, marker_key("orders", 2): Marker(epoch, 1, "")}
    assert other_code(checkpoint, part, SETTINGS, "edited") == ""  # a checkpoint of before does not say what ran
    checkpoint.keep_code("as it was", {})
    assert other_code(checkpoint, part, SETTINGS, "as it was") == ""
    assert other_code(checkpoint, before, SETTINGS, "edited") == ""
    assert written_part(checkpoint, before) == ""
    assert written_part(checkpoint, part) == "Output partition 2 has written its part of batch 0 already."
    assert "output partition 2 has batch 0 already" in other_code(checkpoint, part, SETTINGS, "edited")


@pytest.fixture
def planned(
    broker: DevBroker,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Plans:
    """Run a command of the orders service; its exit code and what it printed."""

    def run(command: str, *flags: str) -> tuple[int, Any]:
        brokers = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", topic_prefix)
        checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"))
        monkeypatch.setattr("sys.argv", ["moneystate", command, ORDERS, *brokers, *checkpoint, *flags])
        with pytest.raises(SystemExit) as end:
            main.main()
        printed = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, printed.out + printed.err

    return run


def test_a_plan_says_which_topics_are_created(planned: Plans, topic_prefix: str) -> None:
    code, text = planned("plan", "--json")
    assert code == 0
    mine = json.loads(text)["orders"]
    assert mine[0]["part"] == "checkpoint"
    assert f"{topic_prefix}orders-state" in [change["name"] for change in mine if change["part"] == "topic"]
    code, text = planned("plan", "--no-create-topics")
    assert code == 1
    assert "NO" in text


def test_a_start_that_would_change_something_else_is_refused(planned: Plans, tmp_path: Path) -> None:
    approved = tmp_path / "plan.json"
    assert planned("plan", "--save", str(approved))[0] == 0
    content = json.loads(approved.read_text())
    content["orders"] = content["orders"][1:]
    approved.write_text(json.dumps(content))
    code, text = planned("run", "--approved", str(approved))
    assert code == 2
    assert "expected to change what was approved, but orders: checkpoint orders differs" in text
    assert planned("run", "--approved", str(tmp_path / "missing"))[0] == 2


def test_a_job_is_started_again_by_the_file_that_approved_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wait, grace = (
        JobChange("rule", "wait_ms", 1, 2, "from the next batch on"),
        JobChange("rule", "grace_ms", 1, 2, ""),
    )
    approved = tmp_path / "plan.json"
    left: dict[str, list[JobChange]] = {"orders": [wait, grace]}
    monkeypatch.setattr("moneystate.cli.plan._planned", lambda prepared: left)
    approved.write_text(json.dumps({"orders": [wait._asdict(), grace._asdict()]}))
    check_approved(approved, [])
    left["orders"] = []
    check_approved(approved, [])
    left["orders"] = [wait._replace(before=3)]
    with pytest.raises(ConfigError, match="but orders: rule wait_ms differs"):
        check_approved(approved, [])
    left.update(orders=[], others=[])
    with pytest.raises(ConfigError, match="but the service others differs"):
        check_approved(approved, [])


@pytest.mark.parametrize("content", ["", "[]", '{"orders": 5}'])
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, content: str) -> None:
    approved = tmp_path / "plan.json"
    approved.write_text(content)
    with pytest.raises(ConfigError, match="expected a file of moneystate plan --save"):
        check_approved(approved, [])


def test_plan_and_start_refuse_state_that_the_program_cannot_read(tmp_path: Path) -> None:
    spec = job_spec(ORDERS, {})
    of_order = spec.rules["state_schemas"]["value order"]
    for had, says in (
        ({"value order": of_order, "map lines": ["c301"]}, "map lines: .*no longer declared"),
        ({"value order": [*of_order, "c301aa"]}, "value order: .*may have entries of c301aa, which no version"),
    ):
        before = {**spec.rules, "state_schemas": {**ids_of(spec), **had}}
        now = job_spec(ORDERS, {"state_schemas": before["state_schemas"]})
        checkpoint = existing(tmp_path / says[:8], before, ("orders", "payments"))
        (change,) = changes(now, SETTINGS, checkpoint)
        assert (change.part, change.name, change.refused) == ("state", says.partition(":")[0], True)
        new = Checkpoint(str(tmp_path / "new"))
        begun = changes(now, SETTINGS, new, savepoint(before, ("orders",)))
        assert change in begun
        with pytest.raises(CheckpointError, match=says):
            check_readable(now, checkpoint.latest_rules(), "where")


def test_what_was_written_before_is_remembered(tmp_path: Path) -> None:
    written = job_spec(ORDERS, {"state_schemas": {"map lines": ["c301"]}}).rules["state_schemas"]
    assert written == {"map lines": ["c301"], **job_spec(ORDERS, {}).rules["state_schemas"]}


@pytest.mark.parametrize("given", [{"state_schemas": None}, {"logic": 1}])
def test_an_unfinished_batch_of_an_earlier_program_keeps_its_rules(given: dict[str, Any]) -> None:
    assert "state_schemas" not in job_spec(ORDERS, given).rules


def test_plan_tells_what_else_a_start_refuses(tmp_path: Path) -> None:
    spec = job_spec(ORDERS, {})
    checkpoint = existing(tmp_path, dict(spec.rules), ("orders", "payments"))
    drained = Plan(plans.rules_hash(spec.rules), dict.fromkeys(("orders", "payments"), "id"), {}, drain=True)
    (tmp_path / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(drained.to_offset())}")
    refused = [change for change in changes(spec, SETTINGS, checkpoint) if change.refused]
    assert [change.part for change in refused] == ["start"]
    assert "--drain has ended" in refused[0].effect
    until = replace(drained, drain_until_ms=1_000)
    (tmp_path / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(until.to_offset())}")
    for later, is_refused in ((None, True), (999, True), (1_000, True), (1_001, False)):
        told = changes(spec, SETTINGS, checkpoint, drain_until_ms=later)
        assert any(change.refused for change in told) is is_refused


def test_plan_tells_that_a_newer_program_wrote_the_checkpoint(tmp_path: Path) -> None:
    spec = job_spec(ORDERS, {})
    checkpoint = existing(tmp_path, dict(spec.rules), ("orders", "payments"))
    offset = {**checkpoint.offset(0), "format": 99, "version": 99, "state_version": 99}
    (tmp_path / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    (change,) = changes(spec, SETTINGS, checkpoint)
    assert (change.part, change.refused) == ("start", True)


def test_plan_and_a_start_from_a_savepoint_refuse_the_same(tmp_path: Path) -> None:
    new, spec = Checkpoint(str(tmp_path / "new")), job_spec(ORDERS, {})
    whole = savepoint(dict(spec.rules), ("orders", "payments"))
    drained = Plan("", {}, {}, drain=True).to_offset()
    refused = [
        replace(whole, job="stock"), replace(whole, key_groups=8), replace(whole, plan=drained),
        replace(whole, output=[FileInfo("output/group-00000.avro", 0, 0, "")], streams=["others"]),
        replace(whole, rules={**spec.rules, "wait_ms": 1}), replace(whole, rules={**spec.rules, "state_versions": 99}),
        replace(whole, rules={**spec.rules, "timed": ["orders"]}),
        replace(whole, rules={**spec.rules, "topics": {"orders": 1, "payments": 0}}),
    ]  # fmt: skip
    for manifest in refused:
        with pytest.raises(MoneystateError):
            check_fits(manifest, "orders", 64, spec.rules, spec.streams)
        assert [c.part for c in changes(spec, SETTINGS, new, manifest) if c.refused] != []
    check_fits(whole, "orders", 64, spec.rules, spec.streams)
    assert [c.part for c in changes(spec, SETTINGS, new, whole)] == ["checkpoint"]


def test_plan_and_a_start_on_a_checkpoint_refuse_the_same(tmp_path: Path) -> None:
    spec, topics = job_spec(ORDERS, {}), ("orders", "payments")
    rules = dict(spec.rules)
    same = existing(tmp_path / "same", rules, topics)
    cases: list[tuple[Checkpoint, dict[str, Any]]] = [
        (same, {"job": "stock"}), (same, {"key_groups": 8}), (same, {"partitions": 8}), (same, {"topic_prefix": "a-"}),
        (same, {"application_id": "a"}), (existing(tmp_path / "a", {**rules, "state_versions": 99}, topics), {}),
        (existing(tmp_path / "b", {**rules, "timed": ["orders"]}, topics), {}),
        (existing(tmp_path / "c", {**rules, "wait_ms": 1}, topics, unfinished=True), {}),
    ]  # fmt: skip
    for checkpoint, settings in cases:
        with pytest.raises(MoneystateError):
            check_existing(checkpoint, {**SETTINGS, **settings}, rules, finish_batch=False, reads_replies=False)
        assert [c.part for c in changes(spec, {**SETTINGS, **settings}, checkpoint) if c.refused] != []
    check_existing(same, SETTINGS, rules, finish_batch=False, reads_replies=False)
    assert changes(spec, SETTINGS, same) == []
