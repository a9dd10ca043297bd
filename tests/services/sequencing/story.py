"""A bench of the service, what its tests send, and what they look at."""

from __future__ import annotations

from typing import Any

import moneystate as ms
from moneystate.runtime.layout import place_of
from moneystate.testing import Bench
from services.sequencing import records as r
from services.sequencing.config import Config
from services.sequencing.service import sequencing

S = 1_000
FOLLOWS: dict[str, tuple[str, ...]] = {"ASSIST": ("POINT",)}


def bench(key_groups: int = 3, **config: Any) -> Bench:
    return Bench(sequencing(Config(**config)), bound_ms=0, key_groups=key_groups)


def event(seq: int, seconds: float, body: object = None, id: str = "") -> r.StreamEvent:
    return r.StreamEvent("game", seq, id or f"e{seq}", ms.Json.of(body), int(seconds * S))


def of(bench: Bench, topic: str) -> list[Any]:
    return bench.out(*[output for output in bench.service.outputs if output.topic == f"sequenced-{topic}"])


def order(bench: Bench) -> list[object]:
    """The output: numbers of events, the others as they are."""
    return [out.seq if isinstance(out, r.Sequenced) else out for out in of(bench, "output")]


def skipped(from_: int, to: int) -> r.GapSkipped:
    return r.GapSkipped("game", from_, to)


def void(from_: int, to: int) -> r.GapVoid:
    return r.GapVoid("game", from_, to)


def owners(bench: Bench) -> set[bytes]:
    return {place.owner for key, _ in bench.entries() if (place := place_of(key))}
