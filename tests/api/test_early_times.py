"""Event times that are probably not in ms are warned of once for each input, with an event: in a bench and in a run."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pytest

import moneystate as ms
from moneystate.cli.display import Display
from moneystate.engine.block import merge
from moneystate.engine.intake import Intake, PlannedPartition
from moneystate.engine.items import NO_TIME
from moneystate.engine.keygroup import run_batch
from moneystate.engine.plan import ACTIVE, PartitionPlan
from moneystate.engine.plan import Plan as BatchPlan
from moneystate.engine.processor import bounds_of
from moneystate.engine.state import MemoryState
from moneystate.job.batch_writing import Report
from moneystate.job.figures import GroupFigures
from moneystate.job.group_results import GroupResult, group_result, pack, unpack
from moneystate.job.progress import BatchProgress, Meter
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.plan import Plan
from moneystate.runtime.processor import ServiceProcessor
from moneystate.testing import Bench
from moneystate.testing.event_times import EventTimeWarning

SECONDS = 1_700_000_000
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Put:
    id: str
    at: int


def made(*topics: str) -> ms.Service[None]:
    service = ms.Service("early")

    def take(ctx: ms.Context[None], e: Put) -> None: ...

    for topic in topics:
        service.on(service.input(topic, Put, key="id", time=lambda e: e.at))(take)
    return service


def bench_of(*topics: str) -> Bench:
    return Bench(made(*topics), bound_ms=1_000, key_groups=2, partitions=2)


def send(bench: Bench, topic: str, *records: Put) -> None:
    (to,) = [declared for declared in bench.service.inputs if declared.topic == topic]
    bench.send(*records, to=to)


def test_a_bench_warns_once_of_an_input_whose_times_look_like_seconds() -> None:
    bench = bench_of("puts", "others")
    send(bench, "puts", *[Put(f"k{n}", SECONDS + n) for n in range(20)])
    send(bench, "others", Put("k", SECONDS * 1_000))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", EventTimeWarning)
        bench.dead_letters()
        send(bench, "puts", Put("later", SECONDS + 60))
        bench.end()
    (line,) = [str(one.message) for one in warned]
    assert line.startswith("puts, partition ")
    assert "key 'k0': expected an event time in ms, found 1700000000, which is 1970-01-20T16:13:20" in line
    assert line.endswith(
        "in seconds it would be 2023-11-14T22:13:20.000Z. Do: return ms from time=, for seconds the number times 1,000."
    )


def test_a_bench_says_nothing_of_times_that_are_counted_from_0() -> None:
    bench = bench_of("puts")
    with warnings.catch_warnings():
        warnings.simplefilter("error", EventTimeWarning)
        send(bench, "puts", *[Put("k", n * DAY_MS) for n in range(60)])
        bench.end()


def batches(times: list[int]) -> list[BatchProgress]:
    """The progress of batches of one record each, on the way that a job's figures go."""
    plan = Plan(made("puts"))
    inputs = plan.input_topics()
    state, processor, meter = MemoryState(), ServiceProcessor(plan), Meter(bounds_of(inputs, 1_000))
    progress = []
    for offset, time in enumerate(times):
        intake = Intake(
            ServiceDecoder(plan), inputs, [PlannedPartition(0, 3, 1)], 1, 1_000, 600_000, plan.dead_letter_stream, {}
        )
        intake.open(0, 1, NO_TIME)
        assert intake.add(0, 3, offset, -1, plan.codecs[Put].encode(Put(f"k{offset}", time))) is None
        result = run_batch(merge(intake.close()), state, processor, bounds_of(inputs, 1_000))
        report, whole = Report(), Report()
        unpacked = unpack(pack(group_result(0, result, GroupFigures())))
        assert isinstance(unpacked, GroupResult)
        report.add(unpacked)
        whole.merge(Report.unpack(report.pack()))
        ends = [BatchPlan("rules", {}, {("puts", 3): PartitionPlan(end, ACTIVE)}) for end in (offset, offset + 1)]
        progress.append(meter.measure(offset, ends[0], ends[1], whole, inputs))
    return progress


def lines(progress: list[BatchProgress], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    display = Display(quiet=True, service="early")
    monkeypatch.setattr(display, "warning", told.append)
    for one in progress:
        display.batch(one)
    return told


def test_a_run_warns_once_of_an_input_with_early_times(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = lines(batches([SECONDS * 1_000, SECONDS, SECONDS + 1]), monkeypatch)
    assert line.startswith("puts, partition 3, offset 1, key 'k1': expected an event time in ms, found 1700000000, ")
    assert "in seconds it would be 2023-11-14T22:13:20.000Z" in line
    (line,) = lines(batches([0]), monkeypatch)
    assert "found 0, which is 1970-01-01T00:00:00.000Z. Do: " in line


def test_a_run_says_nothing_of_times_since_1990(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(batches([631_152_000_000, SECONDS * 1_000]), monkeypatch) == []
