"""A step that ends with an exception: the record is named, and a mended program goes on where nothing was written.

The runs tell OpenLineage how they ended, through its client's file transport.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moneystate.errors import CheckpointError
from moneystate.job.checkpoint import Checkpoint
from moneystate.runtime.job import LOGIC_VERSION
from tests.job.harness import Finished, Setup, small_workload
from tests.job.poison import poisoned
from tests.job.test_poison import last_money, one_line
from tests.local.in_memory import InMemory, command
from tests.log_lines import parsed
from tests.reference.model import WALLET, Rules
from tests.telemetry.receivers import checked

MENDED = LOGIC_VERSION + 1
FAILED, CHECKPOINT = 5, CheckpointError.exit_code
BOUNDED = ("--until-caught-up", "--drain", "--quiet", "--max-records-per-batch", "300", "--openlineage")


class Run:
    """What one run has told."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.states = [event["eventType"] for event in events]
        self.error = events[-1]["run"]["facets"].get("errorMessage", {}).get("message", "")


class Told:
    """The file with the events of all runs of this module."""

    def __init__(self, folder: Path) -> None:
        self.file, self.config = folder / "events", folder / "openlineage.yml"
        transport = {"type": "file", "log_file_path": str(self.file), "append": True}
        self.config.write_text(json.dumps({"transport": transport}))  # YAML includes JSON

    def runs(self, setup: Setup) -> list[Run]:
        """Returns the runs of one job, in their order."""
        by_run: dict[str, list[dict[str, Any]]] = {}
        for line in self.file.read_text().splitlines():
            event = checked(json.loads(line))
            if event["job"]["name"].startswith(setup.prefix):
                by_run.setdefault(event["run"]["runId"], []).append(event)
        return [Run(events) for events in by_run.values()]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    events = Told(tmp_path_factory.mktemp("openlineage"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENLINEAGE_CONFIG", str(events.config))
        yield events


def program(setup: Setup, logic: int, poison: str, *flags: str) -> Finished:
    """One run of the job by a program of this version of the logic, which fails at the money with id `poison`."""
    with poisoned(logic, poison):
        return command(setup.arguments(*BOUNDED, *flags, "--local"))


def test_the_record_is_named_and_the_mended_program_goes_on(in_memory: InMemory, told: Told) -> None:
    setup = in_memory._replace(partitions=1)
    setup.create_inputs(2)
    setup.send(small_workload("--events", "700", "--flush-marker", "--garbage", "0", "--odd", "0"))
    poison, record = last_money(setup.inputs()[0])
    failed = program(setup, LOGIC_VERSION, poison)
    assert failed.code == FAILED
    where = f"{setup.prefix}{WALLET}, partition {record.partition}, offset {record.offset}:"
    assert where in one_line(failed)
    assert "ZeroDivisionError: poison in two lines" in failed.err
    assert "poison.py, line " in failed.err
    checkpoint = Checkpoint(str(setup.checkpoint))
    planned = checkpoint.last_planned()
    last = parsed(failed.err)[-1]
    assert (last["service"], last["batch"], last["exit_code"]) == ("money-enrichment", planned, FAILED)
    assert last["version"] == f"{checkpoint.epoch()}/{planned}"
    assert f"{last['topic']}, partition {last['partition']}, offset {last['offset']}:" == where
    assert planned == checkpoint.last_committed() + 1
    before = checkpoint.offset(planned)

    # other flags are no reason to leave the plan
    assert program(setup, MENDED, "", "--bound", "1s").code == CHECKPOINT
    # the mended program reads what was planned, by its own rules
    finished = program(setup, MENDED, "", "--bound", "1s", "--finish-batch")
    assert finished.code == 0, finished.err
    after = checkpoint.offset(planned)
    assert {**after, "rules": ""} == {**before, "rules": ""}
    assert checkpoint.rules(after["rules"])["logic"] == MENDED
    assert checkpoint.last_committed() >= planned
    done = program(setup, MENDED, "")
    assert done.code == 0, done.err
    setup.check_output(Rules(lookup=False), drain=True)

    failed_run, refused_run, *others = told.runs(setup)
    assert failed_run.states == ["START", "FAIL"]
    assert failed_run.error == f"StepError: {where} its step raised ZeroDivisionError"
    assert refused_run.states == ["START", "FAIL"]
    assert refused_run.error.startswith("RulesError: ")
    assert [run.states for run in others] == [["START", "COMPLETE"]] * 2


def test_where_a_part_is_written_the_rest_is_not_written_by_another_logic(setup: Setup, told: Told) -> None:
    """On a broker, because what is really killed tells nothing."""
    setup = setup._replace(partitions=1)
    setup.create_inputs(2)
    setup.send(small_workload("--events", "700", "--flush-marker"))
    setup.kill_at("committed@1", *BOUNDED, "--local")
    before = Checkpoint(str(setup.checkpoint)).offset(1)
    for flags in ((), ("--finish-batch",)):
        refused = program(setup, MENDED, "", *flags)
        assert refused.code == CHECKPOINT
        assert "logic" in one_line(refused)
        assert Checkpoint(str(setup.checkpoint)).offset(1) == before
    done = program(setup, LOGIC_VERSION, "")
    assert done.code == 0, done.err
    setup.check_output(Rules(lookup=False), drain=True)

    killed, *refused_runs, last = told.runs(setup)
    assert killed.states == ["START"]  # a kill says nothing
    assert [run.states for run in refused_runs] == [["START", "FAIL"]] * 2
    assert last.states == ["START", "COMPLETE"]
