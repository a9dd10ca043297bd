"""The records of a bucket in the topics of the tiers."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from json.encoder import encode_basestring as quote

from services.rollups import bins
from services.rollups.catalog import Known, Table
from services.rollups.columns import Slot
from services.rollups.config import Config
from services.rollups.records import Metric, Rollup
from services.rollups.stats import Stats
from services.rollups.tiers import Tier, next_minute


def key_of(record: Rollup) -> str:
    return bucket_key(record.device_id, record.start)


def bucket_key(device: str, start: int) -> str:
    """[device, start], the start in ms."""
    return f"[{quote(device)},{start}]"


def rollup_of(
    device: str, config: Config, tier: Tier, slot: Slot, metrics: Mapping[int, Stats], table: Table
) -> Rollup:  # fmt: skip
    by_name = {table.known[number].name: metric_of(its, table.known[number]) for number, its in metrics.items()}
    return Rollup(
        device, slot.start, slot.end, final_at(config, tier, slot.end), slot.revision, slot.expected, by_name
    )  # fmt: skip


def final_at(config: Config, tier: Tier, end: int) -> int:
    """Returns the time from which late readings do not change a bucket."""
    return min(next_minute(end + config.horizon_ms), end + config.keep_ms(tier))


def metric_of(its: Stats, known: Known) -> Metric:
    scale = known.scale
    made = Metric(
        its.count, its.min / scale, its.max / scale, exact(its.total, known.digits), its.total / (its.count * scale),
        its.first / scale, its.last / scale, its.first_at, its.last_at,
    )  # fmt: skip
    if its.bins is not None:
        made.p50, made.p90, made.p99 = (quantile(its, percent, scale) for percent in (50, 90, 99))
    if its.increase is not None:
        made.increase, made.covered = its.increase / scale, its.last_at - its.first_at
    return made


def exact(total: int, digits: int) -> Decimal:
    """Not by arithmetic, which rounds to the digits of a context."""
    return Decimal(f"{total}E-{digits}")


def quantile(its: Stats, percent: int, scale: int) -> float:
    """The double nearest to it, however large the numbers are."""
    assert its.bins is not None
    result = bins.quantile(its.bins, percent, its.min, its.max)
    return result.above / (result.below * scale)
