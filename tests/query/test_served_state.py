"""`moneystate checkpoint fingerprint` and `compare` of a server's state: the keys part of the checkpoint's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moneystate.devbroker import DevBroker
from moneystate.job.checkpoint import Checkpoint
from moneystate.savepoint.format import Savepoint
from tests.job.harness import Setup, finished, small_workload
from tests.query.conftest import Done, Moneystate
from tests.query.serving import LISTENING, Server
from tests.query.story import EPOCH
from tests.query.test_equals_reference import Replica
from tests.savepoint.test_compare import written

LOOKUPS = ("--session-lookup", "topic", "--quiet")


@pytest.fixture
def saved(server: Server, tmp_path: Path) -> Savepoint:
    """The story's state, from the job itself."""
    return written(tmp_path / "saved", server.job.sim.states)


def keys_of(fingerprint: str) -> str:
    return fingerprint.partition("-")[0]


def test_a_servers_fingerprint_is_the_keys_part_of_the_jobs(
    moneystate: Moneystate, server: Server, saved: Savepoint
) -> None:
    done = moneystate("checkpoint", "fingerprint", server.address)
    assert (done.code, done.out.strip()) == (0, keys_of(saved.manifest.fingerprint))
    assert done.err.strip() == f"version {EPOCH}/2, watermark 2023-11-14T22:13:49.000Z"
    told = json.loads(moneystate("checkpoint", "fingerprint", server.address, "--json").out)
    assert told == {"keys": done.out.strip(), "version": f"{EPOCH}/2", "watermark_ms": saved.manifest.watermark}


def test_a_server_and_the_jobs_state_are_the_same_keys(
    moneystate: Moneystate, server: Server, saved: Savepoint
) -> None:
    places = [str(saved.folder), server.address]
    for one, other in (places, places[::-1], [server.address] * 2):
        done = moneystate("checkpoint", "compare", one, other)
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines() == [
            "compared: the keys; a server has no buffered events",
            "the same keys",
        ]


def test_an_earlier_version_differs_and_is_another_moment(
    moneystate: Moneystate, server: Server, saved: Savepoint
) -> None:
    pinned = ("--at-version", f"{EPOCH}/1")
    done = moneystate("checkpoint", "compare", str(saved.folder), server.address, *pinned)
    assert done.code == 1
    lines = done.out.splitlines()
    told_of_bob = lines[lines.index("key bob") + 1]
    assert told_of_bob.startswith(f"  value user: only in {saved.folder}: ")
    assert '"1999"' in told_of_bob
    assert "these are different moments: " in done.out
    assert "differences" in done.out.splitlines()[-1]
    told = json.loads(moneystate("checkpoint", "compare", str(saved.folder), server.address, *pinned, "--json").out)
    assert told["compared"] == "keys"
    assert told["one"] == {"version": None, "watermark_ms": saved.manifest.watermark}
    assert told["other"]["version"] == f"{EPOCH}/1"
    assert told["other"]["watermark_ms"] < saved.manifest.watermark
    assert told["differences"] == len(told["first"])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fingerprint", "127.0.0.1:1"], 3, "check HOST:PORT"),
        (["compare", "SAVED", "127.0.0.1:1"], 3, "check HOST:PORT"),
        (["compare", "127.0.0.1:1", "SERVER"], 3, "check HOST:PORT"),
        (["fingerprint", "/nowhere"], 2, "a savepoint, a stopped job's checkpoint, or HOST:PORT"),
        (["compare", "SERVER", "/nowhere:1"], 2, "a savepoint, a stopped job's checkpoint, or HOST:PORT"),
        (["fingerprint", "SERVER", "--at-version", f"{EPOCH}/99"], 3, "OUT_OF_RANGE"),
        (["compare", "SERVER", "SAVED", "--at-version", f"{EPOCH}/99"], 3, "OUT_OF_RANGE"),
        (["fingerprint", "SERVER", "--at-version", "nonsense"], 2, "expected EPOCH/BATCH"),
        (["fingerprint", "SERVER", "--service", "stock"], 4, "expected the state of stock"),
        (["fingerprint", "SAVED", "--at-version", f"{EPOCH}/1"], 2, "expected HOST:PORT"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_one_line_and_no_difference(
    moneystate: Moneystate, server: Server, saved: Savepoint, arguments: list[str], code: int, message: str
) -> None:
    places = {"SAVED": str(saved.folder), "SERVER": server.address}
    done: Done = moneystate("checkpoint", *(places.get(argument, argument) for argument in arguments))
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_a_replica_of_a_real_job_has_the_checkpoints_keys(
    broker: DevBroker, topic_prefix: str, tmp_path: Path, moneystate: Moneystate
) -> None:
    setup = Setup(broker.bootstrap_servers, topic_prefix, tmp_path)
    setup.create_inputs()
    setup.send(small_workload("--events", "1500"))
    setup.run("--until-caught-up", "--max-records-per-batch", "700", *LOOKUPS)
    replica = Replica(setup)
    with replica.start() as serving:
        replica.wait_until_at(Checkpoint(str(setup.checkpoint)).last_committed())
        match = LISTENING.search(serving.err())
        assert match is not None
        address = match[1]
        served = moneystate("checkpoint", "fingerprint", address)
        assert served.code == 0, served.err
        printed = finished(["checkpoint", "fingerprint", str(setup.checkpoint)], tmp_path)
        assert served.out.strip() == keys_of(printed.out), printed.err
        same = finished(["checkpoint", "compare", str(setup.checkpoint), address], tmp_path)
        assert (same.code, same.out.splitlines()[-1:]) == (0, ["the same keys"]), same.err
