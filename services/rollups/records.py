"""The records of rollups. The state holds packed bytes, which `tails`, `blocks`, `buckets` and `columns` make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import moneystate as ms

SUM = ms.Digits(38, 9)

# The topic of readings


@dataclass(frozen=True)
class Reading:
    """Holds what a device measured at a time. `metrics`: by name; a null one is skipped."""

    device_id: str
    at: ms.Millis
    metrics: dict[str, float | None]
    reading_id: str | None = None


# The topic rollups-commands


@dataclass(frozen=True)
class Remove:
    """Bad data: the values of a device from `from` on and before `to`. `metric`: None for all of them."""

    device_id: str
    from_: Annotated[ms.Millis, ms.Wire("from")]
    to: ms.Millis
    metric: str | None = None


@dataclass(frozen=True)
class Forget:
    """Removes all that is known of a device."""

    device_id: str


# The table of devices


@dataclass(frozen=True)
class DeviceRow:
    """Holds what is known of a device. What is None is as the configuration has it."""

    device_id: str
    zone: str | None = None
    site: str | None = None
    interval_ms: int | None = None


# The topics of the tiers


@dataclass
class Metric:
    """The values of a metric in a bucket. `first`, `last`: by their times; `increase`, `covered`: of a counter, how
    much it has grown between its values here, and the ms between the first and the last of them."""

    count: int
    min: float
    max: float
    sum: Annotated[ms.Decimal, SUM]
    mean: float
    first: float
    last: float
    first_at: ms.Millis
    last_at: ms.Millis
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    increase: float | None = None
    covered: int | None = None


@dataclass
class Rollup:
    """A bucket. `final_at`: from then on, late readings do not change it; `expected`: how many readings the device's
    interval makes."""

    device_id: str
    start: ms.Millis
    end: ms.Millis
    final_at: ms.Millis
    revision: int
    expected: int
    metrics: dict[str, Metric]


# State


@dataclass
class Device:
    """`names`: of its metrics: a JSON array of pairs of name and digits. Their places are the metrics' numbers. `zone`,
    `interval_ms`: of its row in the table of devices; `has_row`: whether there is one; `has_sent`: whether a reading
    was taken."""

    names: str = ""
    site: str = ""
    zone: str | None = None
    interval_ms: int | None = None
    has_row: bool = False
    has_sent: bool = False


@dataclass
class OpenBlock:
    """A block with readings that are not in it yet. `first_at`: order time of the first of them; `due`: when they are
    taken in; `minutes`: a bit for each minute with a tail; `touched`: a bit for each that has changed since its bucket
    of the tier 1m was put out; `further`: a minute for each further tail; `zone`: of the device when the block was
    opened, if it has another one by now."""

    start: ms.Millis
    first_at: ms.Millis
    due: ms.Millis
    minutes: int = 0
    touched: int = 0
    further: list[int] = field(default_factory=list)
    zone: str = ""


@dataclass
class Closing:
    """A bucket of hours or days with readings, and not put out yet."""

    tier: int
    start: ms.Millis
    end: ms.Millis


@dataclass
class Pulse:
    """Holds what readings change. `seen`: the minute of the last reading, by order time; `due`: of the timer."""

    seen: ms.Millis = 0
    due: ms.Millis = 0
    open: list[OpenBlock] = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)


@dataclass
class LateBlock:
    """A block whose first reading came late, so that it is kept longer than others."""

    start: ms.Millis
    drop_at: ms.Millis


@dataclass
class Book:
    """Describes which entries there are. `blocks`: starts of raw blocks, as runs of quarters of an hour, without `late`
    ones; `buckets`: by tier, starts in minutes as runs; `chunks`: by tier, numbers of the chunks as runs."""

    blocks: bytes = b""
    late: list[LateBlock] = field(default_factory=list)
    buckets: list[bytes] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)


@dataclass
class Tail:
    """Readings of a minute. `further`: how many tails the minute has beyond its first one."""

    packed: bytes
    further: int = 0


@dataclass
class Raw:
    """A block, or a further part of one. `first_at`: order time of its first reading; `parts`: how many there are."""

    first_at: ms.Millis
    parts: int
    packed: bytes


@dataclass
class Minutes:
    """The tier 1m of a block, if it is put out. `digests`: of what was put out last, by minute."""

    revisions: list[int]
    digests: list[bytes]


@dataclass
class Bucket:
    """A bucket that may still change. `day`: the start of the local day that all of it belongs to, of a day its end; -1
    if there is none; `packed`: the aggregates of its metrics."""

    revision: int
    expected: int
    day: ms.Millis
    packed: bytes


@dataclass
class Packed:
    """Final buckets of a tier: the frame of a chunk, or one metric's column in it."""

    packed: bytes
