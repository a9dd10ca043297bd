"""`moneystate rescale`: other key groups and partitions for a running job. Only one of the checkpoints goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moneystate.job.checkpoint import Checkpoint
from tests.job.harness import Finished, Setup, finished, small_workload
from tests.reference.model import Rules

RULES = Rules(lookup=False)
BOUNDED = ("--until-caught-up", "--quiet", "--max-records-per-batch", "300")
CHECKPOINT = 4  # exit code


def rescale(setup: Setup, new: str, *flags: str) -> Finished:
    places = ("--checkpoint", str(setup.checkpoint), "--new-checkpoint", str(setup.folder / new))
    servers = ("--bootstrap-servers", setup.bootstrap_servers)
    return finished(["rescale", *places, *servers, "--quiet", "--json", *flags], setup.folder)


def rescaled(setup: Setup, new: str, *flags: str) -> tuple[str, ...]:
    """The flags with which the job goes on."""
    done = rescale(setup, new, *flags)
    assert (done.code, done.err) == (0, ""), done.err
    told: dict[str, Any] = json.loads(done.out)
    return tuple(told["next"].split())


def refused(done: Finished, told: str) -> None:
    assert (done.code, done.out, len(done.err.splitlines())) == (CHECKPOINT, "", 1), done.err
    assert told in done.err


@pytest.mark.long
def test_a_running_job_gets_other_numbers_and_one_of_its_checkpoints_goes_on(setup: Setup) -> None:
    setup.create_inputs()
    log = small_workload("--events", "1800")
    setup.send(log[:600])
    old = Checkpoint(str(setup.checkpoint))
    with setup.start("--quiet") as job:
        job.wait_for(lambda: old.last_committed() >= 0, "a batch")
        refused(rescale(setup, "same", "--key-groups", "8"), "expected other numbers than the 8 key groups")
        refused(rescale(setup, "running", "--key-groups", "32"), f"process {job.process.pid},")
        first = rescaled(setup, "first", "--key-groups", "32", "--stop")
        assert job.finish().code == 0
    assert first[-4:] == ("--key-groups", "32", "--partitions", "2")
    refused(rescale(setup, "first", "--partitions", "4"), "expected no folder of this name")

    setup.send(log[600:1200])
    with setup.start(*BOUNDED) as job:  # the old one is as it was, and goes on
        assert job.finish().code == 0
    refused(setup.refused(*BOUNDED, *first), "later batches would be written again")

    second = rescaled(setup, "second", "--key-groups", "32", "--partitions", "5")
    setup.kill_at("taken over@-1", *BOUNDED, *second)
    setup.send(log[1200:])
    refused(setup.refused(*BOUNDED), "another checkpoint has taken over this application")
    setup.run(*BOUNDED, *second)
    setup.check_output(RULES, drain=False)
    new = Checkpoint(str(setup.folder / "second")).settings()
    assert (new["key_groups"], new["partitions"]) == (32, 5)
