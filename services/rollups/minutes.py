"""The tier 1m, if it is put out. Its buckets are made of the readings and not stored: the state has the revision of
each, and a digest by which a change is seen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import moneystate as ms
from services.rollups.blocks import Block
from services.rollups.catalog import Settings, Table
from services.rollups.columns import Slot
from services.rollups.config import Config
from services.rollups.records import Minutes, OpenBlock
from services.rollups.stats import Stats
from services.rollups.stepping import Outputs, StepMaps
from services.rollups.tails import Row, rows
from services.rollups.taking import tail_ids
from services.rollups.tiers import MINUTE, MINUTES, QUARTER, block_id, next_minute

IN_BLOCK = QUARTER // MINUTE


class MinuteTier:
    def __init__(
        self, ctx: ms.Context[Config], config: Config, outputs: Outputs, maps: StepMaps, settings: Settings,
        table: Table,
    ) -> None:  # fmt: skip
        self.ctx = ctx
        self.config = config
        self.outputs = outputs
        self.maps = maps
        self.settings = settings
        self.table = table

    def close(self, its: OpenBlock, spread_ms: int) -> None:
        """Puts out minutes of a block that is not closed: those that close now, and at a full minute those that have
        changed since they closed."""
        now = self.ctx.now
        closes = {m: its.start + (m + 1) * MINUTE + spread_ms for m in range(IN_BLOCK) if its.touched >> m & 1}
        over = [m for m, at in closes.items() if at == now or (at < now and now % MINUTE == 0)]
        self.put_out(its.start, self._block_of(its, over), over)
        for minute in over:
            its.touched &= ~(1 << minute)
        dues = [max(at, next_minute(now)) if at < now else at for m, at in closes.items() if m not in over]
        its.due = min([*dues, its.start + QUARTER + spread_ms])

    def _block_of(self, its: OpenBlock, minutes: list[int]) -> Block:
        block = Block()
        for id in tail_ids(its):
            after = int(id[:8], 16) * MINUTE - its.start
            if after // MINUTE in minutes:
                for row in rows(self.maps.tails[id].packed):
                    block.add(Row(row.at + after, row.id, row.numbers, row.values))
        return block

    def put_out_block(self, start: int, block: Block) -> None:
        self.put_out(start, block, range(IN_BLOCK))

    def put_out(self, start: int, block: Block, minutes: Iterable[int]) -> None:
        """Puts out those of the minutes that have changed."""
        if not self.config.put_out_1m:
            return
        id = block_id(start)
        known = self.maps.minutes.get(id) or Minutes([0] * IN_BLOCK, [b""] * IN_BLOCK)
        for minute in minutes:
            digest = digest_of(block, minute)
            if digest == known.digests[minute]:
                continue
            known.digests[minute] = digest
            known.revisions[minute] += 1
            first = start + minute * MINUTE
            expected = max(1, MINUTE // self.settings.interval_ms)
            slot = Slot(first, first + MINUTE, known.revisions[minute], expected, -1)
            self.outputs.put(self.ctx, MINUTES, slot, stats_of_minute(block, start, minute, self.table), self.table)
        if any(known.revisions):
            self.maps.minutes.put(id, known)


def stats_of_minute(block: Block, start: int, minute: int, table: Table) -> dict[int, Stats]:
    made: dict[int, Stats] = {}
    for number in block.columns:
        its = table.known[number]
        first = minute * MINUTE
        stats = block.stats_of(number, start, first, first + MINUTE, its.counter, its.percentiles)
        if stats is not None:
            made[number] = stats
    return made


def digest_of(block: Block, minute: int) -> bytes:
    """Digests all values of a minute with their ids; empty if there is none."""
    first, end = minute * MINUTE, (minute + 1) * MINUTE
    values = [
        (number, at, block.ids.get((number, at)), value)
        for number, column in sorted(block.columns.items())
        for at, value in sorted(column.items())
        if first <= at < end
    ]
    return hashlib.blake2b(repr(values).encode(), digest_size=8).digest() if values else b""
