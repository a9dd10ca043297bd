"""A second processor, that has nothing to do with money: it counts and sums per key.

The first event of a key opens a window; a timer `WINDOW_MS` later emits how many events came and their sum, and
removes the key. What the engine does must not depend on what it does it for.

A value is the event time (8 bytes), an amount (4 bytes), both signed and big-endian, and the key; without a key it is a
heartbeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from moneystate.engine import avro
from moneystate.engine.deadletter import Letter
from moneystate.engine.effects import Effects
from moneystate.engine.items import TIMER_RANK, Item, UnorderedRecord
from moneystate.engine.processor import Change, Convert, Decoded, InputTopic, Read, ReadValue, Rejected
from moneystate.engine.state import StateAccess
from moneystate.testing.simulation import Input, Simulation

ALPHA, BETA, NOTES = 0, 1, 2
INPUTS = [
    InputTopic(ALPHA, "alpha", True, 1),
    InputTopic(BETA, "beta", True, 0),
    InputTopic(NOTES, "notes", False, 0),
]
TOTALS, DEAD_LETTERS = 0, 2
WINDOW_MS = 5_000
BOUND_MS = 2_000

Partition = tuple[int, int]


def value_of(time_ms: int, key: str = "", amount: int = 0) -> bytes:
    return time_ms.to_bytes(8, "big", signed=True) + amount.to_bytes(4, "big", signed=True) + key.encode()


class TinyDecoder:
    def decode(self, topic: int, value: bytes) -> Decoded:
        if len(value) < 12:
            raise Rejected("malformed", f"{len(value)} bytes, expected 12 or more")
        return value, int.from_bytes(value[:8], "big", signed=True), value[12:] or None

    def reads(self, formats: Mapping[str, str], converts: Mapping[int, Convert]) -> dict[int, Read]:
        return {}

    def values(self, formats: Mapping[str, str]) -> dict[int, ReadValue]:
        return {}

    def needs_headers(self, topic: int) -> bool:
        return False

    def ends_load(self, topic: int, record: Letter) -> int | None:
        return None

    def rejected(self, cause: Exception) -> Rejected | None:
        return None


class Tiny:
    """A small processor."""

    def __init__(self, trace: list[Item], notes: list[UnorderedRecord]) -> None:
        self.trace = trace  # gets every item of a step, in order
        self.notes = notes  # gets every record of the unordered input

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[int | None]:
        keys = sorted({item[7] for item in items})
        entries = state.get_many([b"t" + key for key in keys])
        self.windows = {
            key: decode_window(entry) for key, entry in zip(keys, entries, strict=True) if entry is not None
        }
        self.touched: set[bytes] = set()
        return [None if item[1] == TIMER_RANK else _amount(item) for item in items]

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]]) -> list[Change]:
        return []

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None:
        self.notes.append(record)

    def step(self, item: Item, parsed: int | None, effects: Effects) -> None:
        self.trace.append(item)
        key = item[7]
        self.touched.add(key)
        if item[1] == TIMER_RANK:
            count, total = self.windows.pop(key)
            effects.emit(TOTALS, key, f"{item[0]}: {count} {total}".encode(), [])
            effects.count("open", -1)
            return
        if item[0] > item[6]:
            effects.count("late")
        count, total = self.windows.get(key, (0, 0))
        if count == 0:
            effects.set_timer(item[0] + WINDOW_MS, TIMER_RANK, item, key, b"")
            effects.count("open")
        self.windows[key] = (count + 1, total + (_amount(item) if parsed is None else parsed))

    def finish(self, effects: Effects) -> list[Change]:
        return [(b"t" + key, _encode(self.windows.get(key))) for key in sorted(self.touched)]


def _amount(item: Item) -> int:
    return int.from_bytes(item[8][8:12], "big", signed=True)


def _encode(window: tuple[int, int] | None) -> bytes | None:
    if window is None:
        return None
    return avro.long_bytes(window[0]) + avro.long_bytes(window[1])


def decode_window(entry: bytes) -> tuple[int, int]:
    count, pos = avro.read_long(entry, 0)
    return count, avro.read_long(entry, pos)[0]


class TinyLog:
    """Appends records to partitions; `take` gives those that were appended since the last time."""

    def __init__(self) -> None:
        self.fresh: list[Input] = []
        self.ends: Counter[Partition] = Counter()

    def put(
        self, topic: int, time_ms: int, key: str = "", amount: int = 1, partition: int = 0, timestamp_ms: int = -1
    ) -> None:
        self.raw(topic, value_of(time_ms, key, amount), partition, timestamp_ms)

    def raw(self, topic: int, value: bytes | None, partition: int = 0, timestamp_ms: int = -1) -> None:
        offset = self.ends[topic, partition]
        self.ends[topic, partition] += 1
        self.fresh.append(Input(topic, partition, offset, timestamp_ms, b"key", value, []))

    def beat(self, time_ms: int, *partitions: Partition) -> None:
        for topic, partition in partitions or ((ALPHA, 0), (BETA, 0)):
            self.put(topic, time_ms, partition=partition)

    def take(self) -> list[Input]:
        taken, self.fresh = self.fresh, []
        return taken


class TinyRun:
    """A simulation of the tiny processor with what it saw. One key group, so that `trace` is the total order."""

    def __init__(self, partitions: Sequence[Partition] = ((ALPHA, 0), (BETA, 0)), key_groups: int = 1) -> None:
        self.trace: list[Item] = []
        self.notes: list[UnorderedRecord] = []
        self.log = TinyLog()
        self.sim = Simulation(
            TinyDecoder(), INPUTS, partitions, partial(Tiny, self.trace, self.notes), BOUND_MS, key_groups=key_groups
        )

    def batch(self, drain: bool = False, idle: Sequence[Partition] = ()) -> None:
        self.sim.batch(self.log.take(), drain, idle)

    def stepped(self) -> list[str]:
        """Keys of the items stepped over, in order; those of timers in brackets."""
        return [f"({item[7].decode()})" if item[1] == TIMER_RANK else item[7].decode() for item in self.trace]

    def totals(self) -> list[tuple[str, str]]:
        return [((key or b"").decode(), (value or b"").decode()) for _, key, value, _ in self.sim.outputs]
