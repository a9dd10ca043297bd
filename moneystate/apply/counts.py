"""What a target tells about itself, and how long it waits before it tries again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from moneystate.apply.chunks import Partition

FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 10.0


@dataclass
class Counts:
    """Holds what a target has done since the start of the process."""

    records: int = 0
    transactions: int = 0
    letters: int = 0
    outgoing: int = 0
    retries: int = 0
    skipped: int = 0
    trouble: str = ""  # why nothing goes on at the moment; empty: it does
    stopped: dict[Partition, str] = field(default_factory=dict)
