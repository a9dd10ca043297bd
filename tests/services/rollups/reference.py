"""What rollups must put out for a log, in the plainest way: all values are kept for good, and a bucket is made again of
all its values whenever it is put out. Nothing is shared with the service but its records."""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from services.rollups.records import Forget, Reading, Remove

MIN, QUARTER, HOUR = 60_000, 900_000, 3_600_000
LENGTHS = {"1m": MIN, "15m": QUARTER, "1h": HOUR}
Winner = tuple[bool, str, int]  # no id, id, scaled value
Span = tuple[int, int]


@dataclass(frozen=True)
class Of:
    """A metric, as the configuration has it."""

    digits: int = 3
    percentiles: bool = False
    min: float | None = None
    max: float | None = None
    counter: bool = False


@dataclass(frozen=True)
class Rules:
    metrics: dict[str, Of]
    zone: str
    interval: int
    horizon: int
    exact: int
    keep: dict[str, int]
    strict: bool = False
    minutes: bool = False

    def raw(self) -> int:
        return max(self.exact, self.keep["1m"])


class Logged(NamedTuple):
    """In the total order. `time`: order time."""

    time: int
    record: Any


@lru_cache(4096)
def first_instants(zone: str, year: int) -> list[int]:
    """Finds the first instants of all local dates of three years, in minutes of search."""
    tz, result, known = ZoneInfo(zone), [], set[date]()
    at = datetime(year - 1, 12, 28, tzinfo=UTC)
    while at < datetime(year + 1, 1, 5, tzinfo=UTC):
        local = at.astimezone(tz).date()
        if local not in known:
            known.add(local)
            result.append(int(at.timestamp()) * 1000)
        at += timedelta(minutes=15)
    return result


def day_of(zone: str, at: int) -> Span:
    result = first_instants(zone, datetime.fromtimestamp(at / 1000, UTC).year)
    n = next(n for n, start in enumerate(result) if start > at)
    return result[n - 1], result[n]


@dataclass
class Bucket:
    revision: int = 0
    shown: Any = None


@dataclass
class Device:
    """`current`: the winner of each metric and time, of all that came; `taken`: as of the last time that its block was
    looked at."""

    current: dict[int, dict[tuple[str, int], Winner]] = field(default_factory=lambda: defaultdict(dict))
    taken: dict[int, dict[tuple[str, int], Winner]] = field(default_factory=lambda: defaultdict(dict))
    first: dict[int, int] = field(default_factory=dict)  # order time of a block's first reading
    due: dict[int, int] = field(default_factory=dict)  # by block
    repeats: dict[int, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))  # since then
    minutes: dict[int, int] = field(default_factory=dict)  # when a minute is to be put out
    closing: dict[tuple[str, Span], int] = field(default_factory=dict)
    buckets: dict[tuple[str, int], Bucket] = field(default_factory=lambda: defaultdict(Bucket))


class Reference:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.devices: dict[str, Device] = {}
        self.out: dict[tuple[str, str, int], list[Any]] = defaultdict(list)
        self.letters: list[str] = []
        self.counts: Counter[str] = Counter()

    def run(self, log: Iterable[Logged]) -> None:
        log = list(log)
        for device in sorted({logged.record.device_id for logged in log}):
            for now, record in [its for its in log if its.record.device_id == device]:
                self.wake(device, now - 1)
                self.take(device, now, record)
            self.wake(device, 1 << 60)

    # Readings

    def take(self, id: str, now: int, e: Any) -> None:
        if isinstance(e, Forget):
            self.forget(id, now)
        elif isinstance(e, Remove):
            self.remove(id, now, e)
        else:
            self.reading(id, now, e)

    def reading(self, id: str, now: int, e: Reading) -> None:
        rules, device = self.rules, self.devices.get(id) or Device()
        block = e.at - e.at % QUARTER
        given = {name: value for name, value in e.metrics.items() if value is not None}
        why = ""
        if e.at > now + 300_000:
            why = "ahead"
        elif now > e.at + rules.horizon:
            why = "too_late"
        elif block in device.first and now > max(block + QUARTER, device.first[block]) + rules.exact:
            why = "unverified"
        if why:
            self.counts[why] += len(given)
            if why == "ahead" or rules.strict:
                self.letters.append(why)
            return
        good, wrong = self.values(given)
        if wrong and rules.strict:
            self.letters.append("out_of_range")
        if not good:
            return
        self.devices[id] = device
        device.first.setdefault(block, now)
        for name, value in good.items():
            new = (e.reading_id is None, e.reading_id or "", value)
            known = device.current[block].get((name, e.at))
            if known is not None:
                device.repeats[block].append((name, e.at))
            device.current[block][name, e.at] = new if known is None else min(new, known)
        spread = self.spread(id)
        device.due.setdefault(block, self.due(now, block + QUARTER + spread))
        minute = e.at - e.at % MIN
        if rules.minutes and now < block + QUARTER + spread:
            device.minutes.setdefault(minute, self.due(now, minute + MIN + spread))

    def values(self, given: dict[str, float]) -> tuple[dict[str, int], int]:
        good, wrong = {}, 0
        for name, value in given.items():
            rule = self.rules.metrics.get(name)
            if rule is None:
                self.counts["unmatched"] += 1
                continue
            product = value * 10**rule.digits
            scaled = None if math.isnan(product) or abs(product) >= 2**53 else round(product)
            low = 0 if rule.counter and rule.min is None else rule.min
            if scaled is None or not is_between(low, Fraction(scaled, 10**rule.digits), rule.max):
                wrong += 1
            else:
                good[name] = scaled
        self.counts["out_of_range"] += wrong
        return good, wrong

    def spread(self, id: str) -> int:
        return zlib.crc32(id.encode()) % 30_000

    def due(self, now: int, closes: int) -> int:
        return closes if now <= closes else -(-now // MIN) * MIN

    # Timers

    def wake(self, id: str, until: int) -> None:
        device = self.devices.get(id)
        while device is not None:
            dues = [*device.due.values(), *device.minutes.values(), *device.closing.values()]
            if not dues or min(dues) > until:
                return
            self.at(id, device, min(dues))

    def at(self, id: str, device: Device, now: int) -> None:
        for minute in sorted(m for m, due in device.minutes.items() if due <= now):
            del device.minutes[minute]
            block = minute - minute % QUARTER
            self.show(id, device, "1m", (minute, minute + MIN), device.current[block], now)
        spans = sorted(its for its, due in device.closing.items() if due <= now)
        stale = {b for b, due in device.due.items() if due <= now}
        stale |= {b for b in device.due for _, (first, end) in spans if first <= b < end}
        changed = set(spans)
        for block in sorted(stale):
            del device.due[block]
            self.counts["repeated"] += len(device.repeats.pop(block, ()))
            if device.taken[block] == device.current[block]:
                if not device.current[block] and not device.buckets["15m", block].revision:
                    device.first.pop(block, None)  # all of it was removed before it was looked at
                continue
            device.taken[block] = dict(device.current[block])
            changed |= self.block(id, device, block, now)
        for its in spans:
            del device.closing[its]
        for tier in ("1h", "1d"):
            for its in sorted(changed):
                if its[0] == tier:
                    self.coarse(id, device, its, now)

    def block(self, id: str, device: Device, block: int, now: int) -> set[tuple[str, Span]]:
        """Puts it out, and returns what has to be made again."""
        for minute in range(block, block + QUARTER, MIN) if self.rules.minutes else ():
            device.minutes.pop(minute, None)
            self.show(id, device, "1m", (minute, minute + MIN), device.taken[block], now)
        self.show(id, device, "15m", (block, block + QUARTER), device.taken[block], now, always=True)
        changed = set()
        hour = block - block % HOUR
        for its in (("1h", (hour, hour + HOUR)), ("1d", day_of(self.rules.zone, block))):
            closes = its[1][1] + self.spread(id)
            if closes <= now:
                changed.add(its)
            else:
                device.closing[its] = closes
        return changed

    def coarse(self, id: str, device: Device, its: tuple[str, Span], now: int, always: bool = True) -> None:
        tier, span = its
        values = {key: won for block in device.taken.values() for key, won in block.items()}
        self.show(id, device, tier, span, values, now, always)

    def show(
        self, id: str, device: Device, tier: str, span: Span, values: dict[tuple[str, int], Winner], now: int,
        always: bool = False,
    ) -> None:  # fmt: skip
        """A new revision; without `always` only if a value, or its id, is another one."""
        inside = {key: won for key, won in values.items() if span[0] <= key[1] < span[1]}
        bucket = device.buckets[tier, span[0]]
        if bucket.revision == 0 and not inside:
            return
        if not always and inside == (bucket.shown or {}):
            return
        bucket.revision += 1
        bucket.shown = inside
        if now < span[1] + self.rules.keep[tier]:
            made = self.made(id, tier, span, inside, bucket.revision) if inside else None
            self.out[tier, id, span[0]].append(made)

    def made(self, id: str, tier: str, span: Span, inside: Any, revision: int) -> dict[str, Any]:
        metrics = {}
        for name in sorted({name for name, _ in inside}):
            pairs = sorted((at, won[2]) for (its, at), won in inside.items() if its == name)
            metrics[name] = aggregate(pairs, self.rules.metrics[name])
        last = -(-(span[1] + self.rules.horizon) // MIN) * MIN
        return {
            "device_id": id, "start": span[0], "end": span[1], "final_at": min(last, span[1] + self.rules.keep[tier]),
            "revision": revision, "expected": max(1, (span[1] - span[0]) // self.rules.interval), "metrics": metrics,
        }  # fmt: skip

    # Commands

    def remove(self, id: str, now: int, e: Remove) -> None:
        device = self.devices.get(id)
        if e.from_ >= e.to:
            self.letters.append("empty_range")
            return
        if device is None or (e.metric is not None and not self.has(device, e.metric)):
            self.counts["nothing_to_remove"] += 1
            return
        if any(self.cut(id, device, e, now, block) for block in device.current):
            self.letters.append("cuts_a_bucket")
            return
        removed = False
        changed: set[tuple[str, Span]] = set()
        for block in sorted(device.current):
            for its in (device.current[block], device.taken[block]):
                gone = [key for key in its if e.from_ <= key[1] < e.to and e.metric in (None, key[0])]
                if its is device.current[block]:
                    for _, at in gone if block + QUARTER + self.spread(id) > now and self.rules.minutes else ():
                        minute = at - at % MIN
                        self.minute_again(device, minute, now, id)
                elif gone:
                    changed.add(("15m", (block, block + QUARTER)))
                removed |= bool(gone)
                for key in gone:
                    del its[key]
                    device.repeats[block] = [one for one in device.repeats[block] if one != key]
        self.again(id, device, changed, now)
        self.counts["nothing_to_remove"] += not removed

    def minute_again(self, device: Device, minute: int, now: int, id: str) -> None:
        closes = minute + MIN + self.spread(id)
        if closes < now:
            device.minutes.setdefault(minute, -(-now // MIN) * MIN)

    def again(self, id: str, device: Device, changed: set[tuple[str, Span]], now: int) -> None:
        coarser: set[tuple[str, Span]] = set()
        for _, (block, end) in sorted(changed):
            for minute in range(block, end, MIN) if self.rules.minutes else ():
                self.show(id, device, "1m", (minute, minute + MIN), device.taken[block], now)
            self.show(id, device, "15m", (block, end), device.taken[block], now, always=True)
            hour = block - block % HOUR
            coarser |= {("1h", (hour, hour + HOUR)), ("1d", day_of(self.rules.zone, block))}
        for its in sorted(coarser):
            if device.buckets[its[0], its[1][0]].revision:
                self.coarse(id, device, its, now)

    def has(self, device: Device, metric: str) -> bool:
        return any(metric == name for block in device.current.values() for name, _ in block)

    def cut(self, id: str, device: Device, e: Remove, now: int, block: int) -> bool:
        """Whether it would take a part of a bucket of which the readings are gone."""
        end = block + QUARTER
        if block not in device.first:
            return False
        open_until = min(device.first[block] + self.rules.exact, end + self.rules.horizon)
        if now < max(end + self.rules.raw(), open_until) or block in device.due:
            return False
        touched = e.from_ < end and e.to > block and not (e.from_ <= block and end <= e.to)
        return touched and any(e.metric in (None, name) for name, _ in device.taken[block])

    def forget(self, id: str, now: int) -> None:
        device = self.devices.pop(id, None)
        for tier, start in device.buckets if device is not None else ():
            end = day_of(self.rules.zone, start)[1] if tier == "1d" else start + LENGTHS[tier]
            if device is not None and device.buckets[tier, start].shown and now < end + self.rules.keep[tier]:
                self.out[tier, id, start].append(None)


def is_between(low: float | None, value: Fraction, high: float | None) -> bool:
    return (low is None or Fraction(str(low)) <= value) and (high is None or value <= Fraction(str(high)))


def aggregate(pairs: list[tuple[int, int]], rule: Of) -> dict[str, Any]:
    """`pairs`: time and scaled value, in order."""
    values = [value for _, value in pairs]
    scale, n = 10**rule.digits, len(values)
    ranked = sorted(values)
    made: dict[str, Any] = {
        "count": n, "min": ranked[0] / scale, "max": ranked[-1] / scale, "sum": Fraction(sum(values), scale),
        "mean": float(Fraction(sum(values), scale * n)), "first": values[0] / scale, "last": values[-1] / scale,
        "first_at": pairs[0][0], "last_at": pairs[-1][0],
    }  # fmt: skip
    for percent in (50, 90, 99):
        rank = percent * (n - 1) // 100
        made[f"p{percent}"] = ranked[rank] / scale if rule.percentiles else None
    grown = sum(b - a if b >= a else b for a, b in pairwise(values))
    made["increase"] = grown / scale if rule.counter else None
    made["covered"] = pairs[-1][0] - pairs[0][0] if rule.counter else None
    return made


def same(made: Any, record: Any) -> str:
    """Empty if a record is as it must be; percentiles may differ by 1 %."""
    if made is None or record is None:
        return "" if made is record else f"expected {made}, found {record}"
    its = dict(vars(record))
    metrics = {name: dict(vars(metric)) for name, metric in its.pop("metrics").items()}
    for name, metric in metrics.items():
        metric["sum"] = Fraction(str(metric["sum"]))
        for percent in ("p50", "p90", "p99"):
            exact, result = made["metrics"].get(name, {}).get(percent), metric[percent]
            if exact is not None and result is not None and abs(result - exact) <= 0.01 * abs(exact) + 1e-12:
                metric[percent] = exact
    result = {**its, "metrics": dict(sorted(metrics.items()))}
    return "" if result == made else f"expected {made}, found {result}"
