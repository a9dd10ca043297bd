"""A key group that puts much out hands it over while its batch runs: the same outputs in the same order."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import moneystate as ms
from moneystate.engine.block import merge
from moneystate.engine.effects import Spill
from moneystate.engine.intake import Intake, PlannedPartition
from moneystate.engine.items import END_OF_TIME, Output
from moneystate.engine.keygroup import run_batch
from moneystate.engine.processor import bounds_of
from moneystate.engine.state import MemoryState
from moneystate.job.batch_writing import Report
from moneystate.job.group_results import Spilled, pack_spilled, unpack
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.plan import Plan
from moneystate.runtime.processor import ServiceProcessor


@dataclass(frozen=True)
class Asked:
    number: int
    copies: int
    event_time: ms.Millis


@dataclass
class Copy:
    number: int
    copy: int
    text: str


service = ms.Service("copies")
asked = service.input("asked", Asked, key="number", time="event_time", format="json")
copies = service.output("copies", Copy, key="number")


@service.on(asked)
def answer(ctx: ms.Context[None], e: Asked) -> None:
    for copy in range(e.copies):
        ctx.emit(copies, Copy(e.number, copy, "x" * 100))
    if e.number % 5 == 4:
        raise ms.Reject("fifth")


def outputs(spill: Spill | None) -> list[Output]:
    """Returns the outputs of one batch."""
    plan, state = Plan(service), MemoryState()
    inputs = plan.input_topics()
    intake = Intake(
        ServiceDecoder(plan), inputs, [PlannedPartition(0, 0, 1)], 1, 0, 600_000, plan.dead_letter_stream, {}
    )  # fmt: skip
    intake.open(0, 1, END_OF_TIME)
    for number in range(40):
        event = plan.codecs[Asked].encode(Asked(number, 3, 1_000 + number))
        assert intake.add(0, 0, number, -1, event) is None
    block = merge(intake.close())
    return run_batch(block, state, ServiceProcessor(plan), bounds_of(inputs, 0), spill).outputs


@pytest.mark.parametrize("most_bytes", [1, 500, 1_000, 10_000, 1_000_000])
def test_outputs_are_the_same_and_no_step_is_split(most_bytes: int) -> None:
    spilled: list[list[Output]] = []
    rest = outputs(Spill(lambda some: spilled.append(list(some)), most_bytes))
    assert [one for part in [*spilled, rest] for one in part] == outputs(None)
    step_bytes = 3 * 150
    assert all(sum(len(value or b"") for _, _, value, _ in part) < most_bytes + step_bytes for part in spilled)
    assert bool(spilled) is (most_bytes < 1_000_000)
    assert all(sum(stream == 0 for stream, *_ in part) % 3 == 0 for part in spilled)


def test_spilled_outputs_reach_the_sink_before_the_rest() -> None:
    spilled: list[bytes] = []
    outputs(Spill(lambda some: spilled.append(pack_spilled(some)), 1_000))
    parts = [unpack(packed) for packed in spilled]
    assert len(parts) > 3
    assert all(isinstance(part, Spilled) for part in parts)
    report = Report()
    for part in parts:
        report.add_outputs(part.outputs)
    assert report.outputs == sum(report.by_stream.values()) == sum(len(part.outputs) for part in parts)
