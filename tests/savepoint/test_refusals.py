"""What must not begin a checkpoint is refused in one line that names it, and nothing is there afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moneystate.engine.marker import Marker, marker_key
from moneystate.engine.processor import InputTopic
from moneystate.errors import ConfigError, DrainedError, MarkerError, SavepointError, SetupError
from moneystate.job.initial import check_fits, check_origin, check_same, note_of, start_plan
from moneystate.savepoint.format import Savepoint
from tests.job.harness import Setup
from tests.local.in_memory import InMemory
from tests.savepoint.make import JOB, empty_savepoint, plan_at

CHECKPOINT = 4


def fits(folder: Path, key_groups: int = 8, **rules: Any) -> None:
    check_fits(Savepoint(folder).manifest, JOB.name, key_groups, {**JOB.rules, **rules}, JOB.streams)


@pytest.mark.parametrize(
    "other",
    [
        {"bound_ms": 1},
        {"session_ttl_ms": 1},
        {"dedup_ttl_ms": 1},
        {"session_wait_ms": 1},
        {"max_future_ms": 1},
        {"session_lookup": "topic"},
    ],
)
def test_other_rules_are_refused_by_name(tmp_path: Path, other: dict[str, Any]) -> None:
    folder = empty_savepoint(tmp_path / "savepoint")
    fits(folder)
    with pytest.raises(SavepointError, match=next(iter(other))):
        fits(folder, **other)


def test_another_version_of_the_program_may_go_on(tmp_path: Path) -> None:
    fits(empty_savepoint(tmp_path / "savepoint"), logic=99, known_schemas=[])


def test_a_program_with_fewer_versions_of_records_does_not_begin_with_a_savepoint(tmp_path: Path) -> None:
    savepoint = Savepoint(empty_savepoint(tmp_path / "savepoint")).manifest
    manifest = replace(savepoint, rules={**savepoint.rules, "state_versions": 3})

    def begin(versions: int) -> None:
        check_fits(manifest, JOB.name, 8, {**JOB.rules, "state_versions": versions}, JOB.streams)

    begin(4)
    with pytest.raises(SavepointError, match=r"expected state of the 2 released versions .* with 3"):
        begin(2)


@pytest.mark.parametrize(
    "other",
    [{"job": "another"}, {"key_groups": 9}, {"with_output": True, "streams": ["elsewhere"]}],
)
def test_another_job_other_key_groups_and_other_streams_are_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    with pytest.raises(SavepointError):
        fits(empty_savepoint(tmp_path / "savepoint", **other))


def test_a_drained_savepoint_is_refused(tmp_path: Path) -> None:
    drained = {**plan_at({}, {}), "drain": True}
    with pytest.raises(DrainedError):
        fits(empty_savepoint(tmp_path / "savepoint", plan=drained))


def markers(*states: tuple[str, int]) -> dict[bytes, Marker]:
    return {marker_key("app", n): Marker(epoch, batch, "") for n, (epoch, batch) in enumerate(states)}


@pytest.mark.parametrize(
    "found_markers",
    [
        markers(("old", 7), ("old", 8)),  # ran on after the export
        markers(("another", 0)),
    ],
)
def test_output_that_is_not_in_the_savepoint_is_not_written_again(
    tmp_path: Path, found_markers: dict[bytes, Marker]
) -> None:
    manifest = Savepoint(empty_savepoint(tmp_path / "s", origins=["older", "old"], origin_batch=7)).manifest
    check_origin(manifest, markers(("old", 7), ("older", 99)), "app")
    check_origin(manifest, {}, "app")
    check_origin(manifest, markers(("new", 0), ("old", 7)), "app", "new")  # it has begun to write
    with pytest.raises(MarkerError):
        check_origin(manifest, found_markers, "app")


def test_the_same_command_may_start_a_checkpoint_again_another_savepoint_may_not(tmp_path: Path) -> None:
    one = empty_savepoint(tmp_path / "one")
    other = empty_savepoint(tmp_path / "other", made_at="later")
    note = note_of(str(one))
    check_same(str(one), note)
    with pytest.raises(SavepointError):
        check_same(str(other), note)
    with pytest.raises(SavepointError):
        check_same(str(one), None)


INPUTS = ["user-events", "user-session-events", "wallet-events"]


def plan(setup: Setup, folder: Path, offsets: str = "") -> dict[str, int]:
    inputs = [InputTopic(code, name, True, 0) for code, name in enumerate(INPUTS)]
    start = start_plan(setup.admin(), Savepoint(folder).manifest, setup.prefix, inputs, "rules", offsets)
    return {f"{topic}/{n}": planned.end for (topic, n), planned in start.partitions.items()}


def test_offsets_of_other_topics_have_to_be_given_for_every_partition(in_memory: InMemory) -> None:
    setup = in_memory
    setup.create_inputs(1)
    offsets = {(topic, 0): 5 for topic in INPUTS}
    folder = empty_savepoint(setup.folder / "savepoint", plan=plan_at(offsets, dict.fromkeys(INPUTS, "another id")))
    with pytest.raises(SavepointError):
        plan(setup, folder)
    given = setup.folder / "offsets.json"
    given.write_text(json.dumps({topic: {"0": 7} for topic in INPUTS}))
    assert plan(setup, folder, str(given)) == {f"{topic}/0": 7 for topic in INPUTS}
    given.write_text(json.dumps({topic: {"0": 7} for topic in INPUTS[1:]}))
    with pytest.raises(ConfigError, match=INPUTS[0]):
        plan(setup, folder, str(given))


def test_history_without_offsets_needs_them_and_missing_topics_are_named(in_memory: InMemory) -> None:
    setup = in_memory
    folder = empty_savepoint(setup.folder / "savepoint", plan=None)
    with pytest.raises(SetupError):
        plan(setup, folder)
    setup.create_inputs(1)
    with pytest.raises(SavepointError):
        plan(setup, folder)


def test_a_refused_start_leaves_no_checkpoint_and_no_topic(in_memory: InMemory) -> None:
    setup = in_memory
    setup.create_inputs(2)
    folder = empty_savepoint(setup.folder / "savepoint")
    before = setup.topics()
    done = setup.refused("--initial-state", str(folder), "--bound", "1s")
    assert done.code == CHECKPOINT
    assert "bound_ms" in done.err
    assert not setup.checkpoint.exists()
    assert setup.topics() == before
