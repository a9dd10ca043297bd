"""When expired state is looked at: rarely, and not for all owners at once."""

from __future__ import annotations

import zlib
from typing import Final

SWEEPS_PER_TTL: Final = 8  # expired state is removed at most an eighth of its TTL later


def sweep_time(owner: bytes, expires: int, ttl_ms: int) -> int:
    """`expires` rounded up to a grid, so that an owner needs one timer at a time and one sweep removes much.

    The grid is shifted by the owner's hash, so that not all owners are swept in one batch.
    """
    grid = max(1, ttl_ms // SWEEPS_PER_TTL)
    phase = ((zlib.crc32(owner) >> 26) * grid) >> 6
    return -((phase - expires) // grid) * grid + phase
