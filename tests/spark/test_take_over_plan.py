"""A batch that another program planned: taken over as it was planned, where no output partition has written it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moneystate.engine import plan as plans
from moneystate.engine.marker import Marker, marker_key
from moneystate.errors import RulesError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.startup import check_plan

OLD: dict[str, Any] = {"bound_ms": 1, "logic": 2, "known_schemas": ["a"]}
NEW: dict[str, Any] = {**OLD, "logic": 3}
SETTINGS = {"application_id": "app", "partitions": 2}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Batch 1 is planned by the old program, batch 0 is finished."""
    made = Checkpoint(str(tmp_path))
    made.begin(SETTINGS, {"offset": {}})
    made.keep_rules(OLD)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    plan = plans.Plan(plans.rules_hash(OLD), {"in": "id"}, {("in", 0): plans.PartitionPlan(7, plans.ACTIVE)})
    for number in range(2):
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{"of": "Spark"}}\n{json.dumps(plan.to_offset())}')
    (tmp_path / "offsets" / ".1.crc").touch()
    (tmp_path / "commits" / "0").touch()
    return made


def markers(checkpoint: Checkpoint, *next_batches: int) -> dict[bytes, Marker]:
    epoch = checkpoint.epoch() or ""
    return {marker_key("app", p): Marker(epoch, number, "") for p, number in enumerate(next_batches)}


def test_an_unwritten_batch_keeps_its_records_and_gets_the_rules_of_the_new_program(checkpoint: Checkpoint) -> None:
    before = checkpoint.folder.read("offsets/1").decode()
    checkpoint.check_rules(NEW)
    check_plan(checkpoint, markers(checkpoint, 1, 1), SETTINGS, NEW)
    checkpoint.replan(NEW)
    after = checkpoint.folder.read("offsets/1").decode()
    assert after == before.replace(plans.rules_hash(OLD), plans.rules_hash(NEW))
    assert sorted(checkpoint.folder.names("offsets")) == ["0", "1"]
    assert checkpoint.changed_rules(NEW) == {}


def test_a_batch_that_is_written_in_part_is_for_the_same_logic_alone(checkpoint: Checkpoint) -> None:
    with pytest.raises(RulesError, match=r"output partition 1 .* logic"):
        check_plan(checkpoint, markers(checkpoint, 1, 2), SETTINGS, NEW)
    check_plan(checkpoint, markers(checkpoint, 1, 2), SETTINGS, OLD)
    others = {key: Marker("another", 5, "") for key in markers(checkpoint, 1, 2)}
    check_plan(checkpoint, others, SETTINGS, NEW)


def test_other_flags_are_no_other_program(checkpoint: Checkpoint) -> None:
    with pytest.raises(RulesError, match="bound_ms 1 -> 5") as refused:
        checkpoint.check_rules({**NEW, "bound_ms": 5})
    assert "logic" not in str(refused.value)


def test_a_rule_that_only_one_program_has_is_another_program_and_no_flag(checkpoint: Checkpoint) -> None:
    fewer = {name: value for name, value in OLD.items() if name != "bound_ms"}
    for other in ({**OLD, "limit": 5}, fewer):
        checkpoint.check_rules(other)
        check_plan(checkpoint, markers(checkpoint, 1, 1), SETTINGS, other)
        with pytest.raises(RulesError, match=r"limit|bound_ms"):
            check_plan(checkpoint, markers(checkpoint, 1, 2), SETTINGS, other)
