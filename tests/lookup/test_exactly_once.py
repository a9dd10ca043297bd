"""Workers that are killed, stopped, frozen and joined by others: every request has one reply among the committed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from moneystate.kafka.group_transactions import Assignment, GroupReader, GroupWriter, Written
from services.enrichment.fake_service import FakeSessionService, HttpAnswer, Knowledge
from tests.job.harness import JobProcess
from tests.lookup.harness import DONE_S, REQUESTS, RESULTS, SHORT, Lookups, check_answered_once, found
from tests.reference.codec import Json

STEPS = ("lookup begun", "lookup produced", "lookup offsets", "lookup committed")


def test_a_kill_after_each_step_of_a_transaction_neither_repeats_nor_loses_a_reply(lookups: Lookups) -> None:
    """One worker, killed and started again: with its id, so that what it left open ends at once."""
    asked: list[Json] = []
    paused = lookups.folder / "paused"
    with FakeSessionService(lambda *_: found()) as service:
        for step in STEPS:
            asked += lookups.ask_many(10, first=len(asked))
            env = {"MONEYSTATE_PAUSE_AT": f"{step}@0", "MONEYSTATE_PAUSE_FILE": str(paused)}
            with lookups.process(service, "--worker-id", "a", env=env) as worker:
                worker.wait_for(paused.exists, step)
            assert (lookups.visible() > 0) == (step == STEPS[-1])
            paused.unlink()
        asked += lookups.ask_many(10, first=len(asked))  # for this worker: what was committed may be all there was
        with lookups.process(service, "--worker-id", "a") as worker:
            lookups.wait_for(len(asked), running(worker))
            done = worker.stop()
    assert done.code == 0, done.err
    check_answered_once(asked, lookups.replies())


def test_workers_that_come_and_go_answer_each_request_once(lookups: Lookups) -> None:
    """One is killed in the middle, one joins, one ends in good order."""
    asked = lookups.ask_many(150)
    with FakeSessionService(Knowledge(error_rate=0.05), latency_s=0.05) as service:
        few = ("--concurrency", "5")
        with lookups.process(service, *few) as first, lookups.process(service, *few) as second:
            lookups.wait_for_some(30, running(first))
            first.kill()
            asked += lookups.ask_many(150, first=150)
            lookups.wait_for_some(120, running(second))
            with lookups.process(service, *few) as third:
                lookups.wait_for_some(200, running(third))
                assert second.stop().code == 0
                lookups.wait_for(300, running(third))
                assert third.stop().code == 0
    check_answered_once(asked, lookups.replies())


def test_a_zombie_that_wakes_up_with_answers_writes_nothing(lookups: Lookups) -> None:
    """Frozen with twenty calls under way, whose answers come while another worker does its work."""
    thawed = threading.Event()

    def behave(_session: str, before: int) -> HttpAnswer:
        if before == 0:
            thawed.wait(DONE_S)
        return found("UY" if before else "FI")

    asked = lookups.ask_many(20)
    with FakeSessionService(behave) as service:
        patient = ("--call-timeout", "60s", "--deadline", "60s")
        with lookups.process(service, *patient) as zombie:
            zombie.wait_for(lambda: len(service.calls) == 20, "calls")
            zombie.process.send_signal(signal.SIGSTOP)
            thawed.set()
            with lookups.process(service, *patient) as heir:
                lookups.wait_for(20, running(heir))
                zombie.process.send_signal(signal.SIGCONT)
                asked += lookups.ask_many(20, first=20)
                lookups.wait_for(40, running(heir))
                assert heir.stop().code == 0
    replies = lookups.replies()
    check_answered_once(asked, replies)
    assert {r.country for r in replies if int(r.money[1:]) < 20} == {"UY"}


def test_the_group_refuses_a_transaction_of_an_old_generation(lookups: Lookups) -> None:
    """Also where the client that lost its partitions has not heard of it."""
    servers, prefix = lookups.cluster.bootstrap_servers, lookups.cluster.prefix
    settings = {**SHORT, "max.poll.interval.ms": "2500"}
    group, requests = prefix + "group", prefix + REQUESTS
    lookups.ask_many(4)
    old, heir = (GroupReader(servers, settings, group, requests) for _ in range(2))
    replies = GroupWriter(servers, settings, prefix + "old", prefix + RESULTS)
    before = assigned(old)
    assert replies.write([Written(prefix + RESULTS, b"u", b"one")], {(requests, 0): 1}, before)
    after = assigned(heir)  # `old` does not poll, so the group goes on without it
    assert sorted(after.starts) == [0, 1]
    assert after.starts[0] == 1
    assert not replies.write([Written(prefix + RESULTS, b"u", b"two")], {(requests, 0): 2}, before)
    assert lookups.visible() == 1
    heir.close()
    old.close()


def assigned(log: GroupReader) -> Assignment:
    log.subscribe()
    deadline = time.monotonic() + DONE_S
    while log.assignment is None:
        log.poll(0.05, 1)
        assert time.monotonic() < deadline
    return log.assignment


def running(worker: JobProcess) -> Callable[[], None]:
    def check() -> None:
        assert worker.process.poll() is None, worker.err()

    return check
