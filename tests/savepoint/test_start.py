"""A job that goes on from a savepoint: as if it had never been stopped, in other key groups and partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from services.engine.keygroup import is_engines, key_group_of
from services.enrichment.state import owner_of
from services.enrichment.topics import CHANGELOG
from services.savepoint.format import Savepoint
from tests.job.harness import Finished, JobProcess, Setup, small_workload
from tests.kafka.logs import settle
from tests.reference import model

RULES = model.Rules(lookup=True)
LOOKUPS = ("--session-lookup", "topic", "--quiet")
KEY_GROUPS, PARTITIONS = 16, 3


def moneystate(setup: Setup, *arguments: str) -> Finished:
    with JobProcess(arguments, setup.folder) as process:
        return process.finish()


def told(setup: Setup, *arguments: str) -> dict[str, Any]:
    """What a command that ends well prints as JSON."""
    done = moneystate(setup, *arguments, "--json")
    assert (done.code, done.err) == (0, ""), done.out + done.err
    printed: dict[str, Any] = json.loads(done.out)
    return printed


def export(setup: Setup, checkpoint: Path, out: Path, *more: str) -> dict[str, Any]:
    return told(setup, "state", "export", "--checkpoint", str(checkpoint), "--out", str(out), "--quiet", *more)


def in_changelog(setup: Setup) -> dict[bytes, bytes]:
    """What compaction leaves of the changelog; every key where its key group belongs."""
    topic = setup.prefix + CHANGELOG
    settle(setup.admin(), [topic])
    partitions = len(setup.admin().list_topics(topic, timeout=10).topics[topic].partitions)
    kept: dict[tuple[int, bytes], bytes] = {}
    for record in setup.read(CHANGELOG):
        assert record.key is not None
        kept.pop((record.partition, record.key), None)
        if record.value is not None and not record.key.startswith(b"e"):
            kept[record.partition, record.key] = record.value
    for partition, key in kept:
        assert partition == key_group_of(owner_of(key) or b"", KEY_GROUPS) % partitions
    return {key: value for (_, key), value in kept.items()}


def processors(savepoint: Savepoint) -> dict[bytes, bytes]:
    groups = range(savepoint.manifest.key_groups)
    return {k: v for group in groups for k, v in savepoint.entries(group) if not is_engines(k)}


def test_a_rescaled_job_goes_on_from_its_savepoint_as_if_it_had_never_been_stopped(setup: Setup) -> None:
    setup.create_inputs()
    log = small_workload("--events", "3000")
    setup.send(log[: len(log) // 2])
    setup.run("--until-caught-up", *LOOKUPS)
    first, last = setup.folder / "first", setup.folder / "last"
    rescale = ("--key-groups", str(KEY_GROUPS))
    exported = export(setup, setup.checkpoint, first, *rescale)
    setup.send(log[len(log) // 2 :])
    moved = setup._replace(folder=setup.folder / "moved")
    moved.folder.mkdir()
    more = ("--partitions", str(PARTITIONS), *rescale, *LOOKUPS, "--until-caught-up")
    moved.run("--initial-state", str(first), *more)
    moved.check_output(RULES, drain=False)
    verified = told(
        setup, "verify-replay", "--checkpoint", str(moved.checkpoint), "--bootstrap-servers", setup.bootstrap_servers,
        "--quiet",
    )  # fmt: skip
    assert (verified["agrees"], verified["state_differences"], verified["output_missing"]) == (True, 0, 0)
    assert verified["fingerprint"] != exported["fingerprint"]
    exported = export(setup, moved.checkpoint, last)
    assert exported["fingerprint"] == verified["fingerprint"]
    assert in_changelog(setup) == processors(Savepoint(last))
    look_at_a_user(setup, last)


def look_at_a_user(setup: Setup, savepoint: Path) -> None:
    """Every user whose money waits for a lookup is shown with it."""
    whole = Savepoint(savepoint)
    waiting = [key for key in processors(whole) if key.startswith(b"w")]
    user = owner_of(waiting[0]) or b""
    shown = told(setup, "state", "show", "--checkpoint", str(savepoint), user.decode())
    mine = [key for key in waiting if owner_of(key) == user]
    assert len(shown["waiting"]) == len(mine)
    assert {row["for"] for row in shown["waiting"]} <= {"lookup", "session"}
