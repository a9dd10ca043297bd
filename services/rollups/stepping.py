"""What steps change: the maps of a device, and the topics of the tiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import moneystate as ms
from services.rollups.catalog import Table
from services.rollups.columns import Slot
from services.rollups.config import Config
from services.rollups.outputs import bucket_key, rollup_of
from services.rollups.records import Bucket, Minutes, Packed, Raw, Rollup, Tail
from services.rollups.shelf import Maps
from services.rollups.stats import Stats
from services.rollups.tiers import Tier


class StepMaps(NamedTuple):
    tails: ms.Entries[Tail]
    raw: ms.Entries[Raw]
    minutes: ms.Entries[Minutes]
    buckets: ms.Entries[Bucket]
    columns: ms.Entries[Packed]

    def read(self) -> Maps:
        return Maps(*self)


class Outputs:
    """The topics of the tiers. `topics`: by tier, without those that are not put out."""

    def __init__(self, config: Config, topics: Mapping[int, ms.Output[Rollup]]) -> None:
        self.config = config
        self.topics = topics

    def put(self, ctx: ms.Context[Config], tier: Tier, slot: Slot, metrics: Mapping[int, Stats], table: Table) -> None:
        """A bucket, or that there is none any more. Nothing once it is not kept."""
        topic = self.kept_in(ctx, tier, slot.end)
        if topic is None:
            return
        if metrics:
            ctx.emit(topic, rollup_of(ctx.key, self.config, tier, slot, metrics, table))
        else:
            ctx.remove(topic, bucket_key(ctx.key, slot.start))

    def remove(self, ctx: ms.Context[Config], tier: Tier, start: int, end: int) -> None:
        topic = self.kept_in(ctx, tier, end)
        if topic is not None:
            ctx.remove(topic, bucket_key(ctx.key, start))

    def kept_in(self, ctx: ms.Context[Config], tier: Tier, end: int) -> ms.Output[Rollup] | None:
        """The topic of a tier, unless a bucket with this end is no longer kept."""
        return None if ctx.now >= end + self.config.keep_ms(tier) else self.topics.get(tier.code)
