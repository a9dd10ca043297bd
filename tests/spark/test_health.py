"""When a job counts as alive and ready."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moneystate.job.health import ADVICE, WAITING_AFTER_S, JobHealth
from moneystate.job.progress import BatchProgress, InputProgress
from moneystate.monitoring import PULSE_S

TOPIC, REPLIES = "orders", "replies"
LIMIT_S = 300.0


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def batch(
    watermark_ms: int | None, records: int = 1, replies: int = 0, silent: bool = False, drained: bool = False
) -> BatchProgress:
    inputs = [
        InputProgress(TOPIC, records, {(TOPIC, 0): False, (TOPIC, 1): False}),
        InputProgress(REPLIES, replies, {}),
    ]
    held = f"{TOPIC}/1"
    return BatchProgress(
        1, records, 1.0, 0, watermark_ms, drained, 0, silent=[held] if silent else [], held_by=held, inputs=inputs
    )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> JobHealth:
    made = JobHealth("shop", clock)
    made.started()
    return made


def after(health: JobHealth, clock: Clock, *batches: BatchProgress, apart_s: float = LIMIT_S + 1) -> JobHealth:
    for number, one in enumerate(batches):
        health.begin(number)
        clock.now_s += apart_s
        health.end(one)
    return health


def test_a_job_is_not_ready_until_it_runs_nor_once_it_is_told_to_stop() -> None:
    health = JobHealth("shop")
    assert health.ready() == (False, "shop: starting")
    health.started()
    assert health.ready() == (True, "shop: ready")
    health.stopping()
    assert health.ready() == (False, "shop: stopping")


def test_a_job_that_was_told_to_stop_before_it_runs_stays_so() -> None:
    health = JobHealth("shop")
    health.stopping()
    health.started()
    assert not health.ready().is_good


def test_a_watermark_that_stands_although_records_arrive_names_the_partition(health: JobHealth, clock: Clock) -> None:
    after(health, clock, batch(5_000), batch(5_000), batch(5_000))
    text = "shop: records arrive, but the watermark stands for 301 s at 1970-01-01T00:00:05+00:00: held by orders/1"
    assert health.ready() == (False, text)
    assert health.standing_s() == LIMIT_S + 1
    after(health, clock, batch(5_001))
    assert (health.ready().is_good, health.standing_s()) == (True, 0)


def test_so_does_one_that_has_never_begun(health: JobHealth, clock: Clock) -> None:
    after(health, clock, batch(None, silent=True), batch(None, silent=True))
    text = "shop: records arrive, but the watermark stands for 301 s: held by orders/1, which has had no record"
    assert health.ready() == (False, text)


@pytest.mark.parametrize(
    "batches",
    [
        [batch(5_000), batch(5_000, records=0), batch(5_000, records=0)],  # nothing arrives
        [batch(5_000), batch(5_000), batch(5_000, records=0)],  # one record, then nothing
        [batch(5_000), batch(5_000, records=0, replies=3), batch(5_000, records=0, replies=3)],
        [batch(5_000), batch(5_001), batch(5_002)],
        [batch(5_000), batch(5_000), batch(None, drained=True)],
    ],
    ids=["quiet", "one record", "replies", "moves", "drained"],
)
def test_a_watermark_stands_in_good_order(health: JobHealth, clock: Clock, batches: list[BatchProgress]) -> None:
    assert after(health, clock, *batches).ready().is_good


def test_a_watermark_may_stand_up_to_the_limit(health: JobHealth, clock: Clock) -> None:
    after(health, clock, batch(5_000), batch(5_000), batch(5_000), apart_s=LIMIT_S)
    assert health.ready().is_good
    health.stalled_after_s = LIMIT_S - 1
    assert not health.ready().is_good


def test_a_batch_that_does_not_end_is_named(health: JobHealth, clock: Clock) -> None:
    health.begin(17)
    clock.now_s += LIMIT_S
    assert health.ready().is_good
    clock.now_s += 1
    assert health.ready() == (False, "shop: batch 17 runs for 301 s")
    health.end(batch(5_000))
    assert health.ready().is_good


def test_a_loop_that_stands_still_is_not_alive(health: JobHealth, clock: Clock) -> None:
    assert health.live() == (True, "shop: alive")  # it has not begun: a start has limits of its own
    health.pulse.beat()
    clock.now_s += PULSE_S
    assert health.live().is_good
    clock.now_s += 1
    assert health.live() == (False, "shop: the main loop stands still for 61 s")
    health.ended()  # beside another job that goes on
    clock.now_s += PULSE_S
    assert health.live().is_good
    assert health.ready().is_good


def test_events_that_wait_for_long_are_told_of_once_and_with_what_holds_them(health: JobHealth, clock: Clock) -> None:
    told: list[str] = []
    health.on_waiting = told.append
    waits = replace(batch(5_000), buffered=3_818)
    after(health, clock, batch(5_000), waits, apart_s=1.0)
    health.beat()
    assert health.ready() == (True, "shop: ready")
    clock.now_s += WAITING_AFTER_S
    health.beat()
    health.beat()
    expected = f"3,818 events have waited for 60 s: {TOPIC}/1 holds the watermark back. {ADVICE}"
    assert told == [expected]
    assert health.ready() == (True, f"shop: ready; {expected}")


def test_events_do_not_wait_while_the_watermark_moves(health: JobHealth, clock: Clock) -> None:
    moving = [replace(batch(1_000 * n), buffered=7) for n in range(4)]
    after(health, clock, *moving, apart_s=WAITING_AFTER_S - 1)
    assert health.waiting() == ""
    idle = replace(moving[-1], held_by=None)
    after(health, clock, idle, apart_s=1.0)
    clock.now_s += WAITING_AFTER_S
    assert health.waiting().startswith("7 events have waited for 61 s: all inputs are idle.")


def test_a_job_is_not_ready_while_a_table_waits_for_its_first_load(health: JobHealth) -> None:
    told: list[str] = []
    health.on_waiting = told.append
    health.started()
    health.loading(["prices/0", "prices/1"])
    health.loading(["prices/1"])
    assert health.ready().is_good is False
    assert health.ready().text.startswith("shop: prices/1: waits for the end of the table's first load")
    assert [line.partition(":")[0] for line in told] == ["prices/0 and 1 more"]
    health.loading([])
    assert health.ready().is_good
