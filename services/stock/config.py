"""The configuration of the ledger and the saga."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

DAY: Final = 86_400_000


@dataclass(frozen=True)
class Config:
    """Describes how long is known: what a command was answered, the id of a reservation that has ended, the id of an
    order that has ended. `format`: of all topics."""

    command_retention_ms: int = 7 * DAY
    reservation_retention_ms: int = 30 * DAY
    order_retention_ms: int = 30 * DAY
    format: Literal["json", "avro"] = "json"
