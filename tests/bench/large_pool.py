"""A pool with many skus and open reservations, in memory with the engine and codecs of a job: the largest records that
it ever writes, of state and of outputs. All of them are in one key group."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from moneystate.engine import keys
from moneystate.engine.state import MemoryState
from moneystate.runtime.plan import Plan
from moneystate.runtime.processor import ServiceProcessor
from moneystate.testing.run import Run, Sent
from services.stock.config import DAY, Config
from services.stock.records import Count, Line, Reserve
from services.stock.service import StockService

START_MS: Final = 1_767_225_600_000
POOL: Final = "pool-1"
BATCH: Final = 20_000


class Measured(MemoryState):
    """`largest`: bytes of a key and its value, by kind of entry."""

    def __init__(self) -> None:
        super().__init__()
        self.largest: dict[str, int] = {}

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        super().apply(changes)
        for key, value in changes:
            kind = {keys.CLOCK: "clock", keys.BUFFER: "buffer"}.get(key[:1]) or key[2 : 2 + key[1]].decode()
            self.largest[kind] = max(self.largest.get(kind, 0), len(key) + len(value or b""))


def commands(skus: int, reservations: int) -> Iterator[Any]:
    """Each reservation has two lines and stays open for up to 30 days after the last of them."""
    chance = random.Random(1)
    for sku in range(skus):
        yield Count(f"count-{sku}", POOL, START_MS, f"sku-{sku}", 10**9)
    for number in range(reservations):
        ttl_ms = reservations + chance.randrange(30 * DAY)
        lines = [Line(f"sku-{chance.randrange(skus)}", chance.randint(1, 3)) for _ in range(2)]
        yield Reserve(f"reserve-{number}", POOL, START_MS + number, f"order-{number}", lines, ttl_ms, f"order-{number}")


def batches(records: Iterable[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for record in records:
        batch.append(record)
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch


def fill(skus: int, reservations: int) -> tuple[Measured, dict[str, int], int]:
    """Its state, the largest outputs by topic, and how many reservations are open at the end."""
    ledger = StockService(Config())
    plan = Plan(ledger.service)
    run = Run(plan, 0, {topic.code: 1 for topic in plan.input_topics()}, 1, False)
    run.sim.make = lambda: ServiceProcessor(plan)
    state = Measured()
    run.sim.states[0] = state
    codec_of = {its.codec.record.cls: its.codec for plans in plan.inputs.values() for its in plans.values()}
    topic = next(iter(plan.inputs))
    outputs: dict[str, int] = {}
    offset = 0
    for batch in batches(commands(skus, reservations)):
        run.batch([Sent(topic, 0, offset + n, codec_of[type(r)].encode(r)) for n, r in enumerate(batch)])
        offset += len(batch)
        for stream, key, value, _ in run.sim.outputs:
            name = plan.streams[stream]
            outputs[name] = max(outputs.get(name, 0), len(key or b"") + len(value or b""))
        run.sim.outputs.clear()
        run.sim.changes.clear()
        run.order.clear()
    prefix = plan.kinds[ledger.reservations.name].prefix
    return state, outputs, sum(key.startswith(prefix) for key in state.entries)


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--skus", type=int, default=100_000)
    p.add_argument("--reservations", type=int, default=1_000_000)
    a = p.parse_args(arguments)
    began = time.process_time()
    state, outputs, still_open = fill(a.skus, a.reservations)
    print(
        f"{still_open:,} open reservations, {len(state.entries):,} entries, {time.process_time() - began:.0f} s of CPU"
    )
    for kind, size in [*sorted(state.largest.items()), *sorted(outputs.items())]:
        print(f"{kind}: {size:,} bytes at most")
