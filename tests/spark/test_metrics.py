"""A job's metrics, as they follow from the reports of batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prometheus_client import generate_latest

from moneystate.engine.deadletter import COUNT_PREFIX
from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.engine.plan import ACTIVE, EMPTY, IDLE, PartitionPlan, Plan
from moneystate.job.batch_writing import Report
from moneystate.job.figures import Figures, GroupFigures
from moneystate.job.health import JobHealth
from moneystate.job.metrics import JobMetrics
from moneystate.job.progress import BatchProgress, Meter
from moneystate.monitoring import Labelled
from moneystate.spark.query_listener import as_trigger
from tests.enrichment import topics
from tests.enrichment.jobs import Rules, enrichment_job
from tests.scrape import Scrape

SPEC = enrichment_job(Rules(lookup=True, bound_ms=20_000))
USER, SESSION, WALLET, REPLIES = "user-events", "user-session-events", "wallet-events", "session-lookup-results"
NOW_S = 1_000.0
JOB = "moneystate_job_"


def plan(**states: tuple[int, str]) -> Plan:
    """Makes a plan by topic with its partition, as `wallet_events_0`: end and state."""
    partitions = {}
    for place, (end, state) in states.items():
        topic, _, number = place.replace("_", "-").rpartition("-")
        partitions[topic, int(number)] = PartitionPlan(end, state)
    return Plan("rules", dict.fromkeys({topic for topic, _ in partitions}, "id"), partitions)


BEFORE = plan(wallet_events_0=(5, ACTIVE), user_events_0=(5, ACTIVE), session_lookup_results_0=(0, EMPTY))
AFTER = plan(
    wallet_events_0=(9, ACTIVE),
    wallet_events_1=(3, EMPTY),  # new in this plan: nothing of it is read
    user_events_0=(5, IDLE),
    user_events_1=(0, ACTIVE),
    session_lookup_results_0=(2, ACTIVE),
)


def measured(report: Report) -> BatchProgress:
    return Meter(SPEC.bounds()).measure(7, BEFORE, AFTER, report, SPEC.inputs)


def shown(*batches: BatchProgress, spark: dict[str, int] | None = None) -> Scrape:
    metrics = JobMetrics(SPEC, JobHealth("s"), clock=lambda: NOW_S)
    for batch in batches:
        metrics.batch(batch)
    if spark is not None:
        progress = {"batchId": 7, "timestamp": "2026-01-31T00:00:00.000Z", "durationMs": spark}
        trigger = as_trigger(progress)
        if trigger is not None:
            metrics.trigger(trigger)
    return Scrape(generate_latest(Labelled({"s": metrics})).decode())


def report(**more: Any) -> Report:
    highs = {(topics.WALLET_EVENTS, 0): 900_000, (topics.WALLET_EVENTS, 1): 800_000, (topics.USER_EVENTS, 1): 950_000}
    return Report(**{"watermark": 780_000, "highs": highs, "holder": [(topics.WALLET_EVENTS, 1)], **more})


def test_an_inputs_watermark_is_that_of_its_slowest_partition_that_is_not_idle() -> None:
    scrape = shown(measured(report()))
    assert scrape.values(JOB + "input_watermark_seconds") == {(WALLET,): 780.0, (USER,): 930.0}
    assert scrape.values(JOB + "input_watermark_lag_seconds") == {(WALLET,): 220.0, (USER,): 70.0}
    assert scrape.values(JOB + "watermark_lag_seconds") == {(): 220.0}
    assert scrape.values(JOB + "watermark_held_by") == {("1", WALLET): 1.0}
    idle = {("0", WALLET): 0.0, ("1", WALLET): 0.0, ("0", USER): 1.0, ("1", USER): 0.0}
    assert scrape.values(JOB + "partition_idle") == idle


def test_without_a_watermark_there_is_no_lag() -> None:
    never = {(topics.WALLET_EVENTS, 0): 900_000}  # the other partition has had no record
    assert shown(measured(report(watermark=NO_TIME, highs=never))).values(JOB + "input_watermark_seconds") == {}
    drained = shown(measured(report(watermark=END_OF_TIME)))
    assert drained.values(JOB + "watermark_seconds") == drained.values(JOB + "watermark_lag_seconds") == {}


def test_a_job_is_drained_by_its_plan_or_at_the_end_of_time() -> None:
    """Up to a declared time, it is drained and has a watermark."""
    until = replace(AFTER, drain=True, drain_until_ms=779_999)
    batch = Meter(SPEC.bounds()).measure(7, BEFORE, until, report(), SPEC.inputs)
    assert (batch.drained, batch.watermark_ms) == (True, 780_000)
    assert (measured(report()).drained, measured(report(watermark=END_OF_TIME)).drained) == (False, True)


def test_records_and_outputs_are_summed_over_batches_and_the_checkpoints_counts_are_not() -> None:
    counts = {"late": 3, "duplicates": 1, "looking_up": 4, "waiting": 2, f"{COUNT_PREFIX}malformed": 5}
    batch = measured(report(outputs=6, changes=8, counts=counts, buffered=9))
    scrape = shown(batch, batch)
    assert scrape.values(JOB + "records_total") == {(WALLET,): 8.0, (USER,): 0.0, (SESSION,): 0.0, (REPLIES,): 4.0}
    assert (scrape.value(JOB + "outputs_total"), scrape.value(JOB + "state_changes_total")) == (12, 16)
    assert (scrape.value(JOB + "late_total"), scrape.value(JOB + "duplicates_total")) == (3, 1)
    assert (scrape.value(JOB + "pending"), scrape.value(JOB + "buffered")) == (4, 9)
    assert scrape.values(JOB + "counter") == {("looking_up",): 4.0, ("waiting",): 2.0}
    letters = scrape.values(JOB + "dead_letters_total")
    assert (letters["malformed",], letters["too_large",]) == (5, 0)  # a reason is there before its first record
    assert scrape.services() == {"s"}


def test_phases_are_of_the_slowest_output_partition() -> None:
    whole = Figures()
    for operator_s, sink_s, bytes_ in ((0.3, 0.01, 10), (0.1, 0.04, 5)):
        one = Figures(sink_s=sink_s, commit_s=0.02, producers=1, memory_bytes={"host 1": 100, "host 2": 50})
        one.add(GroupFigures(70, operator_s / 2, bytes_))
        one.add(GroupFigures(60, operator_s / 2, bytes_))
        whole.merge(one)
    first = measured(report(figures=Figures(producers=4)))
    scrape = shown(first, measured(report(figures=whole)))
    phases = {phase: seconds for (phase,), seconds in scrape.values(JOB + "phase_seconds_sum").items()}
    assert phases == {"source": 0.07, "operator": 0.3, "sink": 0.04, "commit": 0.02}
    assert (scrape.value(JOB + "producers_restarted_total"), scrape.value(JOB + "state_bytes")) == (2, 30)
    assert scrape.values(JOB + "worker_memory_bytes") == {("host",): 150.0}


def test_sparks_durations_count_where_there_was_a_batch() -> None:
    durations = {"latestOffset": 40, "walCommit": 5, "commitOffsets": 6, "triggerExecution": 300}
    assert shown(spark=durations).value(JOB + "batch_seconds_count") == 0
    scrape = shown(spark={**durations, "addBatch": 200})
    assert (scrape.value(JOB + "batch_seconds_count"), scrape.value(JOB + "batch_seconds_sum")) == (1, 0.3)
    assert scrape.values(JOB + "phase_seconds_sum") == {("plan",): 0.04, ("checkpoint",): 0.011}


def test_two_services_share_each_name() -> None:
    one, other = JobMetrics(SPEC, JobHealth("a")), JobMetrics(SPEC, JobHealth("b"))
    one.batch(measured(report()))
    page = generate_latest(Labelled({"a": one, "b": other})).decode()
    assert page.count(f"# TYPE {JOB}records_total ") == 1
    assert Scrape(page).services() == {"a", "b"}
