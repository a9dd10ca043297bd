"""`moneystate plan` and `run --approved`: what a start would change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moneystate.api.job import plain_job
from moneystate.cli import main
from moneystate.cli.plan import check_approved
from moneystate.devbroker import DevBroker
from moneystate.engine import plan as plans
from moneystate.engine.plan import PartitionPlan, Plan
from moneystate.errors import ConfigError
from moneystate.ports.service import JobSpec
from moneystate.spark.checkpoint import Checkpoint
from moneystate.spark.deployment import Change, changes
from moneystate.spark.startup import settings_of

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
    before = dict(plain_job(ORDERS, {}).rules)
    same = existing(tmp_path / "a", before, ("orders", "payments"))
    assert told(plain_job(ORDERS, {}), same) == []
    assert told(plain_job(ORDERS, {"wait_ms": 1}), same) == [("rule", "wait_ms", False)]
    assert told(plain_job(ORDERS, {}), same, key_groups=128) == [("setting", "key_groups", True)]
    fewer = existing(tmp_path / "b", {**before, "known_schemas": before["known_schemas"][1:]}, ("orders", "old"))
    assert told(plain_job(ORDERS, {}), fewer) == [
        ("input", "payments", False),
        ("input", "old", False),
        ("schema", "known", False),
    ]
    newer = existing(tmp_path / "c", {**before, "state_versions": 9, "logic": 0}, ("orders", "payments"))
    assert told(plain_job(ORDERS, {}), newer) == [("state", "versions", True), ("program", "logic", False)]
    unfinished = existing(tmp_path / "d", before, ("orders", "payments"), unfinished=True)
    assert told(plain_job(ORDERS, {"wait_ms": 1}), unfinished)[0] == ("batch", "0", True)
    assert told(plain_job(ORDERS, {}), Checkpoint(str(tmp_path / "none"))) == [("checkpoint", "orders", False)]


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
    assert planned("plan", "--out", str(approved))[0] == 0
    content = json.loads(approved.read_text())
    content["orders"] = content["orders"][1:]
    approved.write_text(json.dumps(content))
    code, text = planned("run", "--approved", str(approved))
    assert code == 2
    assert "expected to change what was approved, but orders: checkpoint orders differs" in text
    assert planned("run", "--approved", str(tmp_path / "missing"))[0] == 2


def test_a_job_is_started_again_by_the_file_that_approved_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wait, grace = Change("rule", "wait_ms", 1, 2, "from the next batch on"), Change("rule", "grace_ms", 1, 2, "")
    approved = tmp_path / "plan.json"
    left: dict[str, list[Change]] = {"orders": [wait, grace]}
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
    with pytest.raises(ConfigError, match="expected a file of moneystate plan --out"):
        check_approved(approved, [])
