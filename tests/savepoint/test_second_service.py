"""The platform does for any service what it does for the enrichment: the tiny one through savepoint, bootstrap,
rescaling, replay."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moneystate.bootstrap.job import Bootstrap
from moneystate.bootstrap.options import BootstrapOptions
from moneystate.engine import keys
from moneystate.engine.keygroup import key_group_of
from moneystate.engine.state import MemoryState
from moneystate.errors import CheckpointError
from moneystate.savepoint.compare import compare
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.format import Savepoint, begin, finish, write_state
from moneystate.savepoint.load import load
from moneystate.savepoint.manifest import EXPORT, Manifest
from moneystate.savepoint.rescale import rescale
from moneystate.savepoint.view import owner_view
from moneystate.testing.simulation import Input
from tests.bootstrap.harness import Here, write_archive
from tests.engine.tiny import ALPHA, BETA, NOTES, TinyLog, TinyRun
from tests.engine.tiny_service import STATE, tiny_job
from tests.enrichment.jobs import Rules, enrichment_job
from tests.job.harness import Setup, finished
from tests.kafka.logs import FLUSH_S, Cluster, wait_until_stable

JOB = tiny_job()
PLACES = [(topic, partition) for topic in (ALPHA, BETA) for partition in (0, 1)]


def some_log(events: int = 400) -> TinyLog:
    rng, log = random.Random(7), TinyLog()
    for n in range(events):
        topic, partition = rng.choice(PLACES)
        late = rng.choice((0, 0, 0, 4_000))
        log.put(topic, 1_000_000 + 40 * n - late, f"key-{rng.randrange(40)}", rng.randrange(100), partition)
    return log


def tiny_run(key_groups: int = 4) -> TinyRun:
    return TinyRun(PLACES, key_groups)


def fingerprint(run: TinyRun) -> str:
    groups = [of_group(n, sorted(state.entries.items()), STATE, JOB.rules) for n, state in enumerate(run.sim.states)]
    return str(sum(groups, Fingerprint()))


def bootstrapped(folder: Path, log: TinyLog, with_output: bool = False) -> Savepoint:
    write_archive(folder / "archive", log.take(), [*PLACES, (NOTES, 0)], names=STATE.topics)
    options = BootstrapOptions(
        [str(folder / "archive")], folder / "savepoint", key_groups=4, partitions=2, max_records_per_chunk=50,
        with_output=with_output,
    )  # fmt: skip
    Bootstrap(JOB, options, lambda progress: None).run(Here())
    return Savepoint(options.out)


def test_a_bootstrap_and_a_rescaled_start_give_what_one_run_gives(tmp_path: Path) -> None:
    first = some_log()
    more = [(ALPHA, 1_020_000, "late-comer"), (BETA, 1_030_000, "key-1"), (ALPHA, 1_040_000, "key-2")]
    whole = tiny_run()
    whole.sim.batch(some_log().take())
    prepared = bootstrapped(tmp_path, first, with_output=True)
    assert prepared.manifest.fingerprint == fingerprint(whole)
    put_out = [output for group in range(4) for output in prepared.outputs(group)]
    assert sorted(map(repr, put_out)) == sorted(map(repr, whole.sim.outputs))
    plain = bootstrapped(tmp_path / "plain", some_log())
    rescale(STATE, plain, tmp_path / "seven", 7, lambda group: None)
    seven = Savepoint(tmp_path / "seven")
    assert compare(STATE, plain, seven, 5).total == 0
    going_on = tiny_run(7)
    going_on.sim.states = [MemoryState() for _ in range(7)]
    for group, state in enumerate(going_on.sim.states):
        load(str(seven.folder), group, state)
        assert {key_group_of(key[1:], 7) for key in state.entries if not keys.is_engines(key)} <= {group}
    before = len(whole.sim.outputs)
    for run in (whole, going_on):
        run.log.ends = Counter(dict.fromkeys(PLACES, 1_000))
        for topic, time_ms, key in more:
            run.log.put(topic, time_ms, key)
        run.batch(drain=True)
    assert fingerprint(going_on) == fingerprint(whole)
    assert sorted(map(repr, going_on.sim.outputs)) == sorted(map(repr, whole.sim.outputs[before:]))
    assert whole.sim.outputs[before:]


def test_an_owner_is_shown_with_its_entries_events_and_timers() -> None:
    run = tiny_run(1)
    run.sim.batch(some_log().take())
    entries = sorted(run.sim.states[0].entries.items())
    owners = {key[1:] for key, _ in entries if not keys.is_engines(key)}
    views = [owner_view(STATE, owner, entries, JOB.rules) for owner in owners]
    assert all(view is not None and view["state"]["windows"] and view["timers"] for view in views)
    assert sum(len(view["buffered"]) for view in views if view is not None) > 0
    assert owner_view(STATE, b"nobody", entries, JOB.rules) is None


def with_a_stranger(folder: Path) -> Savepoint:
    """A savepoint with an entry that the service does not know; its fingerprint is that of the rest."""
    run = tiny_run(2)
    run.sim.batch(some_log(50).take())
    out = begin(folder)
    mine = [sorted(state.entries.items()) for state in run.sim.states]
    print_of = str(sum([of_group(n, entries, STATE, JOB.rules) for n, entries in enumerate(mine)], Fingerprint()))
    mine[1].append((b"x-of-another-program", b"1"))
    files = [write_state(out, n, sorted(entries)) for n, entries in enumerate(mine)]
    rules = dict(JOB.rules)
    finish(folder, Manifest(EXPORT, "", "tiny", [], rules, 2, 2, None, run.sim.watermark, {}, print_of, files))
    return Savepoint(folder)


def test_an_entry_that_the_service_does_not_know_is_refused_by_rescaling(tmp_path: Path) -> None:
    savepoint = with_a_stranger(tmp_path / "savepoint")
    with pytest.raises(CheckpointError, match="x-of-another-program"):
        rescale(STATE, savepoint, tmp_path / "other", 3, lambda group: None)
    assert not (tmp_path / "other").exists()


def test_an_entry_that_the_service_does_not_know_has_no_fingerprint(tmp_path: Path) -> None:
    savepoint = with_a_stranger(tmp_path / "savepoint")
    with pytest.raises(CheckpointError, match="x-of-another-program"):
        of_group(1, savepoint.entries(1), STATE, JOB.rules)


@pytest.mark.parametrize("kind", [keys.CLOCK, keys.BUFFER, keys.RUN, keys.END])
def test_a_service_cannot_have_a_kind_that_is_the_platforms(kind: bytes) -> None:
    keys.check_kinds(b"tu")
    with pytest.raises(ValueError, match=kind.decode()):
        keys.check_kinds(b"t" + kind)


def test_two_services_never_share_an_application() -> None:
    jobs = (JOB, enrichment_job(Rules()))
    for prefix in ("", "shop-"):
        assert len({job.application_id(prefix) for job in jobs}) == len(jobs)


def done(setup: Setup, command: str, *arguments: str) -> dict[str, Any]:
    told = finished([command, *arguments], setup.folder, module="tests.engine.tiny_service")
    assert told.code == 0, told.err
    return told.totals


def send(setup: Setup, records: list[Input]) -> None:
    producer = Cluster(setup.bootstrap_servers, setup.prefix).producer()
    for record in records:
        producer.produce(setup.prefix + STATE.topics[record.topic], record.value, record.key, record.partition)
    assert producer.flush(FLUSH_S) == 0


def options(setup: Setup, folder: Path, **more: Any) -> str:
    fields = {
        "bootstrap_servers": setup.bootstrap_servers,
        "checkpoint": str(folder / "checkpoint"),
        "topic_prefix": setup.prefix,
        "bounded": True,
        "key_groups": 8,
        "partitions": 2,
        "topic_partitions": 2,
    }
    return json.dumps({**fields, **more})


@pytest.mark.long
def test_a_real_job_is_exported_rescaled_started_and_replayed(setup: Setup) -> None:
    cluster = Cluster(setup.bootstrap_servers, setup.prefix)
    for name in STATE.topics.values():
        cluster.create(name, 2)
    log = some_log()
    first = log.take()
    send(setup, first)
    done(setup, "run", options(setup, setup.folder))
    moved, savepoint = setup.folder / "moved", setup.folder / "savepoint"
    moved.mkdir()
    exported = done(setup, "export", str(setup.folder / "checkpoint"), str(savepoint), "5")
    assert Savepoint(savepoint).manifest.fingerprint == exported["fingerprint"]
    for topic, partition in PLACES:
        log.put(topic, 1_020_000, "key-1", partition=partition)
    more = log.take()
    send(setup, more)
    done(setup, "run", options(setup, moved, key_groups=5, initial_state=str(savepoint)))
    verdict = done(setup, "replay", str(moved / "checkpoint"), str(setup.folder), setup.bootstrap_servers)
    assert verdict["agrees"]
    whole = tiny_run()
    whole.sim.batch([*first, *more])
    wait_until_stable(setup.admin(), [setup.prefix + JOB.streams[0]])
    written = Counter((r.key, r.value) for r in setup.read(JOB.streams[0]))
    assert written == Counter((key, value) for stream, key, value, _ in whole.sim.outputs if stream == 0)
    assert verdict["output"] == [written.total(), 0, 0]
    assert verdict["fingerprint"] == fingerprint(whole)
