"""How sequencing is configured: the table `[sequencing]` of a configuration file. All of it decides results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import moneystate as ms


@dataclass(frozen=True)
class Config:
    """A gap is asked for `k` times, every `g1_ms`; `g2_ms` after it became known, `policy` applies. `follows`: by a
    value of the body's `follows_field`, those that may come directly after it; `violation`: what becomes of others."""

    g1_ms: int = 5_000
    k: int = 3
    g2_ms: int = 60_000
    policy: Literal["stall", "skip", "park"] = "stall"
    digest_retention_ms: int = 3_600_000
    closed_wait_ms: int = 3_600_000
    closed_retention_ms: int = 7 * 86_400_000
    idle_retention_ms: int | None = None
    max_held: int = 100_000
    follows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    follows_field: str = "type"
    violation: Literal["emit", "park"] = "emit"
    format: Literal["json", "avro"] = "json"


def check(service: ms.Service[Config], config: Config) -> None:
    """Raises ServiceError."""
    if config.k < 0 or config.g1_ms < 1 or config.g2_ms <= config.k * config.g1_ms:
        service.fail(f"g2 is {config.g2_ms:,} ms, g1 {config.g1_ms:,} ms.", "make g2 longer than k times g1.")
    durations = (config.digest_retention_ms, config.closed_wait_ms, config.closed_retention_ms)
    if min(*durations, config.idle_retention_ms or 0) < 0:
        service.fail("a wait or a retention is negative.", "make it 0 or longer.")
