"""The long forms of what the lookups promise; each prints its figures."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from moneystate.devbroker import DevBroker
from services.enrichment.fake_service import FakeSessionService, Knowledge
from tests.job.harness import ENRICHED, JobProcess, Setup
from tests.kafka.logs import Cluster
from tests.lookup.harness import REQUESTS, RESULTS, Lookups, check_answered_once
from tests.reference import kafka_log
from tests.reference.codec import Json, decode
from tests.reference.model import LogRecord
from tests.workloads.workload_log import workload_log

BEFORE_S, AFTER_S = 60.0, 20.0
EVENTS_PER_S = 200
LATENCY = "100ms"


def all_of_it(broker: DevBroker, folder: Path, seed: int, outage_s: float) -> None:
    thousand(broker, folder)
    kills(broker, folder, random.Random(seed))
    outage_and_replay(broker, folder, outage_s)


def new_lookups(broker: DevBroker, folder: Path, name: str) -> Lookups:
    (folder / name).mkdir()
    return Lookups(Cluster(broker.bootstrap_servers, f"{name}-"), folder / name)


def thousand(broker: DevBroker, folder: Path) -> None:
    """From the first request's to the last reply's Kafka timestamp; the service is a process of its own."""
    lookups = new_lookups(broker, folder, "thousand")
    with service_process() as service, lookups.process(service, "--call-timeout", "10s", "--json", "--quiet") as worker:
        lookups.ask_many(1, first=1_000)
        lookups.wait_for(1)
        asked = lookups.ask_many(1_000)
        lookups.wait_for(1_001)
        calls = worker.stop().totals["calls"]
    check_answered_once(asked, [r for r in lookups.replies() if r.money != "m1000"])
    ends = {name: _timestamps(lookups, name)[1:] for name in (REQUESTS, RESULTS)}
    took = (ends[RESULTS][-1] - ends[REQUESTS][0]) / 1000
    print(f"1,000 lookups at {LATENCY}, concurrency 100: {took:.2f} s, {calls - 1:,} calls", flush=True)


@contextmanager
def service_process() -> Iterator[FakeSessionService]:
    """The fake service, not in this process, whose other threads would slow it down."""
    command = [sys.executable, "-m", "moneystate.cli.main", "fake-session-service", "--port", "0", "--latency", LATENCY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().split("/")[2].rpartition(":")[2])
        try:
            yield FakeSessionService(Knowledge(), port=port)  # never started: it only knows the address
        finally:
            process.terminate()


def kills(broker: DevBroker, folder: Path, rng: random.Random, times: int = 10) -> None:
    """Two workers; one of them is killed and started again, ten times."""
    lookups = new_lookups(broker, folder, "kills")
    asked: list[Json] = []
    with FakeSessionService(Knowledge(error_rate=0.05), latency_s=0.05) as service:
        workers = [_worker(lookups, service, n) for n in range(2)]
        try:
            for _ in range(times):
                asked += lookups.ask_many(300, first=len(asked))
                _pause(rng.uniform(0.5, 8.0))
                victim = rng.randrange(2)
                workers[victim].kill()
                workers[victim] = _worker(lookups, service, victim)
            replies = lookups.wait_for(len(asked))
        finally:
            for worker in workers:
                worker.kill()
        calls = sum(service.calls.values())
    check_answered_once(asked, replies)
    print(
        f"{times} kills: {len(asked):,} requests, {len(replies):,} replies in read_committed, one for each, "
        f"{calls:,} calls",
        flush=True,
    )


def _worker(lookups: Lookups, service: FakeSessionService, number: int) -> JobProcess:
    name = f"w{number}"
    flags = ("--worker-id", name, "--index", str(lookups.folder / name), "--concurrency", "5", "--quiet")
    return lookups.process(service, *flags)


def outage_and_replay(broker: DevBroker, folder: Path, outage_s: float) -> None:
    """A live job with a steady input; the service is away for `outage_s` in the middle. Then a bounded run drains, and
    a fresh checkpoint replays it all with a service that says something else."""
    lookups = new_lookups(broker, folder, "outage")
    setup = Setup(broker.bootstrap_servers, "outage-", folder / "outage" / "job")
    setup.folder.mkdir()
    setup.create_inputs()
    lookups.cluster.create(ENRICHED, setup.partitions)
    live = ("--session-lookup", "topic", "--idle-timeout", "1d")
    service = FakeSessionService(Knowledge(1, not_found_rate=0.1, error_rate=0.05), latency_s=0.1)
    with service, lookups.process(service, "--call-timeout", "10s", "--attempts", "10") as worker:
        with setup.start(*live) as job:
            marks = _feed(setup, service, outage_s)
            _check_alive(worker)
            assert job.stop().code == 0
        drain = (*live, "--until-caught-up", "--drain", "--lookup-deadline", "300s", "--json")
        assert setup.run(*drain).totals["looking_up"] == 0
        assert setup.check_lookups() == 0
        outcomes = [reply.outcome for reply in lookups.replies()]
        _report(setup, marks, outcomes, outage_s)

        service.behaviour = Knowledge(2)
        calls = sum(service.calls.values())
        replay = setup._replace(folder=setup.folder / "replay")
        replay.folder.mkdir()
        assert replay.run(*drain, "--application-id", "replay").totals["looking_up"] == 0
        _check_alive(worker)
    assert setup.check_lookups(copies=2) == 0
    more = sum(service.calls.values()) - calls
    print(f"replay with other answers: the same {len(setup.enriched()) // 2:,} records, {more} calls", flush=True)


def _feed(setup: Setup, service: FakeSessionService, outage_s: float) -> list[float]:
    """Send at a steady rate; the times (s) at which the outage began and ended."""
    total_s = BEFORE_S + outage_s + AFTER_S
    events = int(total_s * EVENTS_PER_S)
    flags = ("--partitions", "2", "--users", "500", "--events", str(events), "--late", "0.01", "--flush-marker")
    log, _ = workload_log(*flags, "--unknown-sessions", "0.01", "--span-ms", str(int(total_s * 60_000)))
    begun, sent = time.time(), 0
    marks: list[float] = []
    while sent < len(log):
        elapsed_s = time.time() - begun
        if not marks and elapsed_s >= BEFORE_S:
            service.stop()
            marks.append(time.time())
        if len(marks) == 1 and elapsed_s >= BEFORE_S + outage_s:
            service.start()
            marks.append(time.time())
        until = min(len(log), int(len(log) * elapsed_s / total_s) + 1)
        setup.send(log[sent:until])
        sent = until
        _pause(0.2)
    return marks


def _report(setup: Setup, marks: Sequence[float], outcomes: Sequence[str], outage_s: float) -> None:
    """Rates of money that needs no lookup: by when the job wrote it."""
    records = [r for r in setup.read(ENRICHED) if _needs_no_lookup(r)]
    half = BEFORE_S / 2  # the first half goes to Spark's start and its backlog
    before = _rate(records, marks[0] - half, marks[0])
    during = _rate(records, marks[0], marks[1])
    counts = {name: outcomes.count(name) for name in sorted(set(outcomes))}
    print(
        f"outage of {outage_s:.0f} s: other money {before:.0f}/s before, {during:.0f}/s during; "
        f"replies {counts}; nothing open; output equal to the reference",
        flush=True,
    )
    assert "FAILED" not in counts
    assert during > 0.8 * before


def _needs_no_lookup(record: LogRecord) -> bool:
    assert record.value is not None
    return decode(record.value)[1]["sessionStatus"] in ("JOINED", "NO_SESSION")


def _rate(records: Sequence[LogRecord], begin_s: float, end_s: float) -> float:
    inside = [r for r in records if begin_s <= (r.timestamp_ms or 0) / 1000 < end_s]
    return len(inside) / (end_s - begin_s)


def _timestamps(lookups: Lookups, name: str) -> list[int]:
    records, _ = kafka_log.read_log(lookups.cluster.bootstrap_servers, [name], lookups.cluster.prefix)
    return sorted(record.timestamp_ms or 0 for record in records)


def _check_alive(worker: JobProcess) -> None:
    assert worker.process.poll() is None, worker.err()


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)
