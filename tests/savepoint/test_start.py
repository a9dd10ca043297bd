"""A job that goes on from a savepoint: as if it had never been stopped, in other key groups and partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moneystate.engine.keygroup import key_group_of
from moneystate.runtime.layout import owner_of, place_of
from moneystate.savepoint.fingerprint import of_facts
from moneystate.savepoint.format import Savepoint
from tests.enrichment.jobs import STATE, Rules, enrichment_job
from tests.enrichment.topics import CHANGELOG
from tests.job.harness import Setup, counts, small_workload
from tests.kafka.logs import Cluster, wait_until_stable
from tests.local.in_memory import InMemory, command
from tests.reference import model

RULES = model.Rules(lookup=True)
LOOKUPS = ("--session-lookup", "topic", "--quiet")
KEY_GROUPS, PARTITIONS = 256, 4


def told(*arguments: str) -> dict[str, Any]:
    """What a command that ends well prints as JSON."""
    done = command([*arguments, "--json"])
    assert (done.code, done.err) == (0, ""), done.out + done.err
    printed: dict[str, Any] = json.loads(done.out)
    return printed


def in_changelog(setup: Setup) -> dict[bytes, bytes]:
    """What compaction leaves of the changelog; every key where its key group belongs."""
    topic = setup.prefix + CHANGELOG
    wait_until_stable(setup.admin(), [topic])
    partitions = Cluster(setup.bootstrap_servers, setup.prefix).partitions(CHANGELOG)
    entries: dict[tuple[int, bytes], bytes] = {}
    for record in setup.read(CHANGELOG):
        assert record.key is not None
        entries.pop((record.partition, record.key), None)
        if record.value is not None and not record.key.startswith(b"e"):
            entries[record.partition, record.key] = record.value
    for partition, key in entries:
        assert partition == key_group_of(owner_of(key) or b"", KEY_GROUPS) % partitions
    return {key: value for (_, key), value in entries.items()}


def test_a_rescaled_job_goes_on_from_its_savepoint_as_if_it_had_never_been_stopped(in_memory: InMemory) -> None:
    setup = in_memory
    setup.create_inputs()
    log = small_workload("--events", "2000")
    setup.send(log[: len(log) // 2])
    setup.run("--until-caught-up", "--key-groups", "64", "--partitions", "2", *LOOKUPS)
    savepoint = setup.folder / "savepoint"
    rescale = ("--key-groups", str(KEY_GROUPS))
    place = ("--checkpoint", str(setup.checkpoint), "--out", str(savepoint))
    exported = told("checkpoint", "export", *place, *rescale, "--quiet")
    look_at_a_user(savepoint)
    setup.send(log[len(log) // 2 :])
    moved = setup._replace(folder=setup.folder / "moved")
    moved.folder.mkdir()
    begin = ("--initial-state", str(savepoint), "--partitions", str(PARTITIONS), *rescale)
    more = (*begin, *LOOKUPS, "--until-caught-up", "--json")
    moved.kill_at("committed@-1", *more)  # a part of the state is in the changelog
    done = moved.run(*more).totals
    want = counts(moved.check_output(RULES, drain=False))
    assert {name: done[name] for name in want} == want
    place = ("--checkpoint", str(moved.checkpoint), "--bootstrap-servers", setup.bootstrap_servers)
    verified = told("verify-replay", *place, "--quiet")
    assert (verified["agrees"], verified["state_differences"], verified["output_missing"]) == (True, 0, 0)
    assert verified["fingerprint"] != exported["fingerprint"]
    assert users_in_changelog(setup, done["watermark_ms"]) == verified["fingerprint"].partition("-")[0]


def users_in_changelog(setup: Setup, watermark: int) -> str:
    """The part of the fingerprint that replicas see."""
    rules = enrichment_job(Rules(lookup=True)).rules
    facts = [fact for key, value in in_changelog(setup).items() for fact in STATE.facts(key, value, watermark, rules)]
    return str(of_facts(facts)).partition("-")[0]


def look_at_a_user(savepoint: Path) -> None:
    """A user whose money waits is shown with all of it."""
    entries = [key for group in range(KEY_GROUPS) for key, _ in Savepoint(savepoint).entries(group)]
    places = [place for key in entries if (place := place_of(key)) is not None]
    waiting = [place.owner for place in places if place.name == "session_lookup"]
    user = waiting[0]
    shown = told("checkpoint", "show", "--checkpoint", str(savepoint), user.decode())
    assert len(shown["state"]["session_lookup"]) == waiting.count(user)
