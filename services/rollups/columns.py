"""Final buckets of a tier in a chunk of time: a frame with what all metrics share, and a column for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from services.rollups import stats, varints
from services.rollups.stats import Stats
from services.rollups.tiers import MINUTE, Tier


class Slot(NamedTuple):
    """A bucket of the frame. Times in ms; `day`: the start of its local day, -1 if there is none."""

    start: int
    end: int
    revision: int
    expected: int
    day: int


class Frame(NamedTuple):
    """`numbers`: of the metrics that have a column."""

    slots: list[Slot]
    numbers: list[int]


def frame_id(tier: Tier, chunk: int) -> str:
    return f"{tier.code}{chunk:06x}"


def column_id(tier: Tier, chunk: int, number: int) -> str:
    return f"{tier.code}{chunk:06x}.{number}"


def write_frame(frame: Frame, tier: Tier, chunk: int) -> bytes:
    out = bytearray()
    varints.write_runs(out, frame.numbers)
    varints.write(out, len(frame.slots))
    before = chunk * tier.chunk_ms // MINUTE
    expected, day = 0, before
    for slot in frame.slots:
        start, end, its_day = slot.start // MINUTE, slot.end // MINUTE, slot.day // MINUTE
        varints.write(out, start - before)
        varints.write(out, end - start)
        varints.write(out, slot.revision)
        varints.write_signed(out, slot.expected - expected)
        varints.write_signed(out, its_day - day)
        before, expected, day = start, slot.expected, its_day
    return bytes(out)


def read_frame(packed: bytes, tier: Tier, chunk: int) -> Frame:
    reader = varints.Reader(packed)
    numbers = reader.runs()
    slots: list[Slot] = []
    start = chunk * tier.chunk_ms // MINUTE
    expected, day = 0, start
    for _ in range(reader.number()):
        start += reader.number()
        end = start + reader.number()
        revision = reader.number()
        expected += reader.signed()
        day += reader.signed()
        slots.append(Slot(start * MINUTE, end * MINUTE, revision, expected, day * MINUTE if day >= 0 else -1))
    return Frame(slots, numbers)


def write_column(column: Mapping[int, Stats], slots: Sequence[Slot]) -> bytes:
    """`column`: by the start of the bucket."""
    out = bytearray()
    varints.write_runs(out, [n for n, slot in enumerate(slots) if slot.start in column])
    near = 0
    for slot in slots:
        its = column.get(slot.start)
        if its is not None:
            stats.write(out, its, slot.start, slot.end, near)
            near = its.min
    return bytes(out)


def read_column(packed: bytes, slots: Sequence[Slot]) -> dict[int, Stats]:
    reader = varints.Reader(packed)
    column: dict[int, Stats] = {}
    near = 0
    for place in reader.runs():
        slot = slots[place]
        its = column[slot.start] = stats.read(reader, slot.start, slot.end, near)
        near = its.min
    return column
