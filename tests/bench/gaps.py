"""`python -m tests.bench gaps`: one stream, some of whose numbers never come, under the policy `skip`, in memory.

What is held must stay bounded, and an event must cost the same however many gaps are open: gaps are timed side by side.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

import moneystate as ms
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.layout import place_of
from moneystate.runtime.plan import Plan
from moneystate.runtime.processor import ServiceProcessor
from moneystate.testing.simulation import Input, Simulation
from services.sequencing.config import Config
from services.sequencing.records import Stream, StreamEvent
from services.sequencing.service import sequencing

START_MS = 1_700_000_000_000
SECOND = 1_000
BOUND_MS = 2 * SECOND
STREAM = "s"


class Measured(NamedTuple):
    """Figures at the end of one second of the stream."""

    second: int
    sent: int
    held: int
    gaps: int
    entries: dict[str, int]  # by state
    largest: int  # largest entry, in bytes
    micros: float  # CPU time per event since the last line


def measure(seconds: int, rate: int, lost: float, g2_ms: int, seed: int = 1) -> Iterator[Measured]:
    """A batch for each second, a line for each `seconds` / 10 of them."""
    plan = Plan(sequencing(Config(g1_ms=g2_ms // 4, k=3, g2_ms=g2_ms, policy="skip", digest_retention_ms=10 * SECOND)))
    topics = plan.input_topics()
    run = Simulation(
        ServiceDecoder(plan), topics, [(topics[0].code, 0)], lambda: ServiceProcessor(plan), BOUND_MS,
        key_groups=1, tasks=1, dead_letter_stream=plan.dead_letter_stream,
    )  # fmt: skip
    codec = plan.codec(StreamEvent, "")
    chance = random.Random(seed)
    sent, micros, events = 0, 0.0, 0
    for second in range(1, seconds + 1):
        batch: list[Input] = []
        for n in range(rate):
            seq = (second - 1) * rate + n + 1
            if chance.random() >= lost:
                e = StreamEvent(STREAM, seq, f"e{seq}", ms.Json.of({"n": n}), START_MS + seq * SECOND // rate)
                batch.append(Input(topics[0].code, 0, sent, -1, None, codec.encode(e), []))
                sent += 1
        run.outputs.clear()  # what the bench keeps is no cost of an event
        run.changes.clear()
        begun = time.process_time()
        run.batch(batch)
        micros += 1e6 * (time.process_time() - begun)
        events += len(batch)
        if second % max(1, seconds // 10) == 0:
            yield _measured(plan, run, second, sent, micros / events)
            micros, events = 0.0, 0


def _measured(plan: Plan, run: Simulation, second: int, sent: int, micros: float) -> Measured:
    entries: Counter[str] = Counter()
    largest, held, gaps = 0, 0, 0
    for key, value in run.states[0].entries.items():
        place = place_of(key)
        if place is None:
            continue
        largest = max(largest, len(value))
        if place.kind == b"m":
            entries[place.name] += 1
            gaps += place.name == "runs" and plan.kinds["runs"].codec.decode(value).kind == "missing"
        elif place.name == "stream":
            stream: Stream = plan.kinds["stream"].codec.decode(value)
            held = stream.held
    return Measured(second, sent, held, gaps, dict(entries), largest, micros)


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    p.add_argument("--seconds", type=int, default=120, help="of the stream")
    p.add_argument("--rate", type=int, default=1_000, help="events per second of the stream")
    p.add_argument("--lost", type=float, default=0.01, help="share of numbers that never come")
    p.add_argument("--g2", type=int, default=30, help="seconds that a gap is waited for")
    a = p.parse_args(arguments)
    table = Table("second", "events", "held", "open gaps", "entries", "largest entry", "µs/event")
    for m in measure(a.seconds, a.rate, a.lost, a.g2 * SECOND):
        entries = ", ".join(f"{name} {n:,}" for name, n in sorted(m.entries.items()))
        table.add_row(
            f"{m.second}", f"{m.sent:,}", f"{m.held:,}", f"{m.gaps:,}", entries, f"{m.largest} B", f"{m.micros:.0f}"
        )
    Console(width=140).print(table)
