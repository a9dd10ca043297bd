"""A service with two states, whose changelog tests write themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import moneystate as ms


@dataclass(frozen=True)
class Seen:
    key: str
    seen_at: ms.Millis


@dataclass
class Total:
    count: int = 0
    name: Annotated[str, ms.personal] = ""
    share: Annotated[float | None, ms.Wire("share")] = None


@dataclass
class Part:
    count: int = 0
    tags: list[str] | None = None


service = ms.Service("pairs")
seen = service.input("seen", Seen, key="key", time="seen_at")
total = service.value("total", Total)
part = service.map("parts", Part, ttl_ms=1_000)


@service.on(seen, total)
def see(ctx: ms.Context[None], e: Seen, total: Total) -> None:
    total.count += 1
