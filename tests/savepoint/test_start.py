"""A job that goes on from a savepoint: as if it had never been stopped, in other key groups and partitions."""

from __future__ import annotations

import json
from pathlib import Path

from tests.job.harness import Finished, JobProcess, Setup, small_workload
from tests.reference import model

RULES = model.Rules()


def moneystate(setup: Setup, *arguments: str) -> Finished:
    with JobProcess(arguments, setup.folder) as process:
        return process.finish()


def exported(setup: Setup, out: Path, *more: str) -> dict[str, str]:
    done = moneystate(
        setup, "state", "export", "--checkpoint", str(setup.checkpoint), "--out", str(out), "--json", *more
    )
    assert done.code == 0, done.err
    told: dict[str, str] = json.loads(done.out)
    return told


def test_a_rescaled_job_goes_on_from_its_savepoint_as_if_it_had_never_been_stopped(setup: Setup) -> None:
    setup.create_inputs()
    log = small_workload("--events", "3000")
    setup.send(log[: len(log) // 2])
    setup.run("--until-caught-up", "--quiet")
    savepoint = setup.folder / "savepoint"
    told = exported(setup, savepoint, "--key-groups", "16")
    setup.send(log[len(log) // 2 :])
    elsewhere = setup.folder / "rescaled"
    more = ("--checkpoint", str(elsewhere), "--key-groups", "16", "--partitions", "3")
    setup.run("--initial-state", str(savepoint), *more, "--until-caught-up", "--drain", "--quiet")
    setup.check_output(RULES, drain=True)
    print(told)
