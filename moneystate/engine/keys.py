"""The first letters of entry keys that are reserved for the platform.

The first letter of an entry's key is its kind. A service may use all other letters (`check_kinds`).
"""

from __future__ import annotations

from typing import Final

CLOCK: Final = b"c"  # a key group's clock; in Spark's state store, the manifest of its segments
BUFFER: Final = b"b"  # a chunk of the buffer
RUN: Final = b"r"  # in Spark's state store, a chunk of a segment
END: Final = b"e"  # in the changelog, an end-of-batch record
RESERVED: Final = CLOCK + BUFFER + RUN + END


def is_engines(key: bytes) -> bool:
    """Whether an entry is the engine's own: clock or buffer. All others are the processor's, and in the changelog."""
    return key[:1] in (CLOCK, BUFFER)


def check_kinds(kinds: bytes) -> None:
    """Raises ValueError if a service uses one of the platform's kinds of entries."""
    taken = sorted({chr(kind) for kind in kinds if kind in RESERVED})
    if taken:
        raise ValueError(f"kinds of entries: expected letters other than {RESERVED.decode()}, found {', '.join(taken)}")
