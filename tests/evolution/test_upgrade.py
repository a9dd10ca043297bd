"""`checkpoint upgrade` and `checkpoint downgrade` on a checkpoint of an earlier release, killed in between."""

from __future__ import annotations

import json

import pytest

from moneystate.engine.avro import HEADER_BYTES
from moneystate.engine.plan import STATE_VERSION
from moneystate.job.checkpoint import Checkpoint
from services.enrichment import topics
from services.enrichment.migrations import WRITTEN, to_current
from tests.evolution.restore import restore
from tests.evolution.test_earlier_release import CAUGHT_UP, go_on
from tests.job.harness import Finished, JobProcess, Setup, finished, moneystate
from tests.kafka.logs import wait_until_stable

BATCHES = 3


def arguments(setup: Setup, command: str, *more: str) -> list[str]:
    place = ("--checkpoint", str(setup.checkpoint), "--bootstrap-servers", setup.bootstrap_servers)
    return ["checkpoint", command, *place, "--batches", str(BATCHES), "--json", *more]


def kill_at(setup: Setup, step: str, command: str) -> None:
    paused = setup.folder / "paused"
    env = {"MONEYSTATE_PAUSE_AT": step, "MONEYSTATE_PAUSE_FILE": str(paused)}
    with JobProcess(arguments(setup, command), setup.folder, env) as process:
        process.wait_for(paused.exists, step)


def run(setup: Setup, command: str, *more: str) -> Finished:
    return moneystate(arguments(setup, command, *more), setup.folder)


def changelog(setup: Setup) -> dict[bytes, bytes]:
    """The last value of each key, without the ends of batches: all entries of users, as they are in the state."""
    wait_until_stable(setup.admin(), [setup.prefix + topics.CHANGELOG])
    last = {record.key or b"": record.value for record in setup.read(topics.CHANGELOG)}
    return {key: value for key, value in last.items() if value is not None and key[:1] != b"e"}


def headers(entries: dict[bytes, bytes]) -> set[bytes]:
    return {entry[:HEADER_BYTES] for entry in entries.values()}


def versions_in_state(setup: Setup) -> set[tuple[str, str]]:
    """Schemas and versions, as `schemas check --against CHECKPOINT` tells them."""
    done = moneystate(["schemas", "check", "--against", str(setup.checkpoint), "--json"], setup.folder)
    return {(f["schema"], f["versions"]) for f in done.totals["findings"] if f["rule"] == "entries"}


@pytest.mark.long
def test_an_upgrade_goes_on_after_a_kill_and_a_downgrade_gives_the_earlier_bytes(setup: Setup) -> None:
    restored = restore(1, setup)
    checkpoint = Checkpoint(str(setup.checkpoint))
    before = changelog(setup)
    first = checkpoint.last_committed() + 1

    kill_at(setup, f"sunk@{first + 1}", "upgrade")
    assert checkpoint.last_committed() == first
    mixed = headers(changelog(setup))
    assert mixed & set(WRITTEN[1])
    assert mixed & set(WRITTEN[STATE_VERSION])
    assert checkpoint.offset(checkpoint.last_planned())["stateVersion"] == STATE_VERSION  # no older program starts

    done = run(setup, "upgrade").totals
    assert (done["done"], done["shares"]) == (BATCHES, BATCHES)
    assert checkpoint.last_committed() == first + BATCHES  # no share twice, and the closing batch
    assert changelog(setup) == {key: to_current(value) for key, value in before.items()}

    run(setup, "downgrade", "--to", "1")
    assert changelog(setup) == before
    records = ("BufferChunk", "KeyGroupClock", "UserPage", "UserState", "WaitingMoney")
    assert versions_in_state(setup) == {(f"state/{record}", "v1") for record in records}
    assert checkpoint.offset(checkpoint.last_planned())["stateVersion"] == 1
    go_on(setup, restored)


def test_a_job_is_refused_over_state_of_a_newer_program(setup: Setup) -> None:
    restored = restore(1, setup)
    last = setup.checkpoint / "offsets" / str(Checkpoint(str(setup.checkpoint)).last_planned())
    *spark_lines, offset = last.read_text().splitlines()
    newer = {**json.loads(offset), "stateVersion": STATE_VERSION + 1}
    last.write_text("\n".join([*spark_lines, json.dumps(newer)]))
    refused = setup.refused(*CAUGHT_UP, *restored.flags)
    assert refused.code == 4
    assert f"state of version {STATE_VERSION + 1}, this program knows {STATE_VERSION}" in refused.err
    assert finished(arguments(setup, "upgrade"), setup.folder).code == 4


def test_a_planned_batch_of_the_job_has_to_be_finished_first(setup: Setup) -> None:
    restore(1, setup)
    offsets = setup.checkpoint / "offsets"
    last = Checkpoint(str(setup.checkpoint)).last_planned()
    (offsets / str(last + 1)).write_text((offsets / str(last)).read_text())
    done = finished(arguments(setup, "upgrade"), setup.folder)
    assert (done.code, "--finish-batch" in done.err) == (4, True)


def test_a_downgrade_to_a_version_that_is_not_earlier_is_wrong_use(setup: Setup) -> None:
    done = finished(arguments(setup, "downgrade", "--to", str(STATE_VERSION)), setup.folder)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
