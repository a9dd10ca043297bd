"""The rules of one run: everything besides the logs that results depend on (DESIGN.md sections 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass

LOGIC_VERSION = 3  # raised when the same logs and rules would give other records than before


@dataclass(frozen=True)
class Rules:
    """All times in ms. A change between two runs is on record in the plan (`moneystate.engine.plan`).

    `max_record_bytes`: an event with a larger value, in canonical form, is a dead letter: it could not be written again
    in every form. In JSON it may grow sixfold, and a broker's default takes a message of 1 MiB.
    """

    bound_ms: int = 20_000
    session_ttl_ms: int = 86_400_000
    dedup_ttl_ms: int = 3_600_000
    session_wait_ms: int = 60_000
    max_future_ms: int = 600_000
    lookup: bool = False
    max_record_bytes: int = 128 * 1024
