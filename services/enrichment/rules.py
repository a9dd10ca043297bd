"""The rules of a run: everything except the logs that results depend on (docs/model.md sections 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass

LOGIC_VERSION = 3  # raised when the same logs and rules would give different records


@dataclass(frozen=True)
class Rules:
    """The rules of the enrichment. The plan records a change of rules between two runs (`moneystate.engine.plan`)."""

    bound_ms: int = 20_000
    session_ttl_ms: int = 86_400_000
    dedup_ttl_ms: int = 3_600_000
    session_wait_ms: int = 60_000
    max_future_ms: int = 600_000
    lookup: bool = False
    # An event with a larger canonical value becomes a dead letter, because its output might not fit into a message.
    # JSON can be six times as large, and a broker accepts messages up to 1 MiB by default.
    max_record_bytes: int = 128 * 1024
