"""A reading: which of its values count, and the tail of its minute, to which they are appended (rules 1 and 2)."""

from __future__ import annotations

import zlib
from typing import Final

import moneystate as ms
from services.rollups import tails
from services.rollups.bins import LIMIT
from services.rollups.catalog import Catalog, Known, Table, known_of
from services.rollups.config import Config
from services.rollups.records import Bucket, Device, OpenBlock, Pulse, Raw, Reading, Tail
from services.rollups.tails import Row
from services.rollups.tiers import MINUTE, QUARTER, QUARTERS, SPREAD_MS, block_id, bucket_id, next_minute

AHEAD_MS: Final = 5 * MINUTE
LATEST: Final = 253_370_764_800_000  # the year 9999: local days around it have to exist
MOST_METRICS: Final = 1_000  # of a device
MOST_NAME: Final = 200  # characters
MOST_ID: Final = 64  # bytes of a reading's id
TAIL_BYTES: Final = 12_000  # a longer tail is not extended: the minute gets a further one
MOST_TAILS: Final = 100  # of a minute

OUT_OF_RANGE: Final = "out_of_range"


def spread_of(device: str) -> int:
    """Returns how long after their ends the device's buckets are closed, in ms."""
    return zlib.crc32(device.encode()) % SPREAD_MS


def due_of(now: int, end: int, spread_ms: int) -> int:
    """Returns when a reading is taken into a bucket: when that is closed, or else at the next full minute."""
    closes = end + spread_ms
    return closes if now <= closes else next_minute(now)


class Taking:
    """A step of a reading."""

    def __init__(self, catalog: Catalog, wake: ms.Timer) -> None:
        self.catalog = catalog
        self.config = catalog.config
        self.wake = wake

    def take(
        self, ctx: ms.Context[Config], e: Reading, device: Device, pulse: Pulse, tails: ms.Entries[Tail],
        raw: ms.Entries[Raw], buckets: ms.Entries[Bucket],
    ) -> None:  # fmt: skip
        now, at = ctx.now, e.at
        start = at - at % QUARTER
        refused = self._refused(ctx, e, start, pulse, raw, buckets)
        if refused:
            given = sum(value is not None for value in e.metrics.values())
            if given:
                ctx.count(refused, given)
            if self.config.strict or refused in ("ahead", "bad_time", "long_id"):
                ctx.dead_letter(refused)
            return
        row = self._row(ctx, e, device, at % MINUTE)
        if row is not None:
            self._append(ctx, row, start, at - start, pulse, tails)
            minute = now - now % MINUTE
            if pulse.seen < minute:
                pulse.seen = minute

    def _refused(
        self, ctx: ms.Context[Config], e: Reading, start: int, pulse: Pulse, raw: ms.Entries[Raw],
        buckets: ms.Entries[Bucket],
    ) -> str:  # fmt: skip
        """Returns why nothing of a reading is taken; empty: it is."""
        now, config = ctx.now, self.config
        if not 0 <= e.at < LATEST:
            return "bad_time"
        if e.at > now + AHEAD_MS:
            return "ahead"
        if now - e.at > config.horizon_ms:
            return "too_late"
        if e.reading_id is not None and len(e.reading_id.encode()) > MOST_ID:
            return "long_id"
        if now > start + QUARTER + config.exact_ms and not self._is_open(now, start, pulse, raw, buckets):
            return "unverified"
        return ""

    def _is_open(self, now: int, start: int, pulse: Pulse, raw: ms.Entries[Raw], buckets: ms.Entries[Bucket]) -> bool:
        """Whether a block takes readings although its time is over: its first one came late, or is this one."""
        block = raw.get(block_id(start))
        if block is not None:
            return now <= block.first_at + self.config.exact_ms
        if any(its.start == start for its in pulse.open):
            return True  # since the last full minute
        return bucket_id(QUARTERS, start) not in buckets

    def _row(self, ctx: ms.Context[Config], e: Reading, device: Device, at: int) -> Row | None:
        """The values that are taken, in the order of their numbers."""
        table = self.catalog.table(device.names)
        result: list[tuple[int, int]] = []
        wrong = ""
        for name, value in e.metrics.items():
            if value is None:
                continue
            its = table.by_name.get(name) or self._new(ctx, name, len(table.known))
            if its is None:
                continue
            scaled = value * its.scale
            if not -LIMIT < scaled < LIMIT or not its.low <= (rounded := round(scaled)) <= its.high:
                ctx.count(OUT_OF_RANGE)
                wrong = wrong or name
                continue
            result.append((its.number, rounded))
            if its.number == len(table.known):
                table = self._add(ctx, device, name)
        if wrong and self.config.strict:
            ctx.dead_letter(OUT_OF_RANGE, wrong)
        if not result:
            return None
        result.sort()
        return Row(at, e.reading_id, [number for number, _ in result], [value for _, value in result])

    def _new(self, ctx: ms.Context[Config], name: str, number: int) -> Known | None:
        """A metric that the device has not sent before, with the number that it would have."""
        metric = self.catalog.metric(name)
        if metric is None or len(name) > MOST_NAME:
            ctx.count("unmatched")
        elif number >= MOST_METRICS:
            ctx.count("too_many_metrics")
        else:
            return known_of(number, name, metric.digits, metric)
        return None

    def _add(self, ctx: ms.Context[Config], device: Device, name: str) -> Table:
        device.names = self.catalog.with_metric(device.names, name)
        device.site = self.catalog.settings_of(ctx.key, device).site
        device.has_sent = True
        return self.catalog.table(device.names)

    def _append(
        self, ctx: ms.Context[Config], row: Row, start: int, after: int, pulse: Pulse, entries: ms.Entries[Tail]
    ) -> None:
        minute = after // MINUTE
        block = self._open_block(ctx, start, minute, pulse)
        id = tail_id(start, minute)
        tail = first = entries.get(id)
        if first is not None and first.further:
            tail = entries[tail_id(start, minute, first.further)]
        if tail is None or first is None:
            block.minutes |= 1 << minute
            entries.put(id, Tail(tails.append(b"", row)))
            return
        packed = tails.append(tail.packed, row)
        if len(packed) <= TAIL_BYTES:
            tail.packed = packed
        elif first.further < MOST_TAILS:
            first.further += 1
            block.further.append(minute)
            entries.put(tail_id(start, minute, first.further), Tail(tails.append(b"", row)))
        else:
            ctx.count("too_many", len(row.values))

    def _open_block(self, ctx: ms.Context[Config], start: int, minute: int, pulse: Pulse) -> OpenBlock:
        block = next((its for its in pulse.open if its.start == start), None)
        spread_ms = spread_of(ctx.key)
        due = due_of(ctx.now, start + QUARTER, spread_ms)
        if self.config.put_out_1m:
            due = min(due, due_of(ctx.now, start + (minute + 1) * MINUTE, spread_ms))
        if block is None:
            block = OpenBlock(start, ctx.now, due)
            pulse.open.append(block)
        block.due = min(block.due, due)
        if self.config.put_out_1m:
            block.touched |= 1 << minute
        if pulse.due == 0 or due < pulse.due:
            pulse.due = due
            ctx.at(self.wake, due)
        return block


def tail_id(start: int, minute: int, further: int = 0) -> str:
    id = f"{start // MINUTE + minute:08x}"
    return f"{id}.{further:02}" if further else id


def tail_ids(block: OpenBlock) -> list[str]:
    """Returns the ids of tails in the order in which they were filled, minute by minute."""
    ids: list[str] = []
    for minute in range(15):
        if block.minutes >> minute & 1:
            ids += [tail_id(block.start, minute, n) for n in range(block.further.count(minute) + 1)]
    return ids


def first_tail(e: Reading) -> list[str]:
    """The tail of a reading's minute, which is read with the batch."""
    return [block_id(e.at - e.at % MINUTE)]
