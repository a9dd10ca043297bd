"""Digests of the events that were passed, many to an entry (rule 2)."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import moneystate as ms
from services.sequencing.records import StreamEvent

SLOT = struct.Struct(">q8s")  # when the number was passed, and the digest
SLOTS = 32  # of an entry


def entries_of(e: Any) -> list[str]:
    return [str(e.seq // SLOTS)] if isinstance(e, StreamEvent) else []


def digest_of(e: StreamEvent) -> bytes:
    return hashlib.sha256(f"{len(e.event_id)}:{e.event_id}{e.body.text}".encode()).digest()[:8]


def keep(passed: ms.Entries[ms.Packed], e: StreamEvent, now: int) -> None:
    page = passed.get(str(e.seq // SLOTS))
    packed = bytearray(page.packed if page else SLOTS * SLOT.size)
    SLOT.pack_into(packed, e.seq % SLOTS * SLOT.size, now, digest_of(e))
    passed.put(str(e.seq // SLOTS), ms.Packed(bytes(packed)))


def digest_at(passed: ms.Entries[ms.Packed], seq: int) -> tuple[int, bytes] | None:
    """When the event with this number was passed, and its digest."""
    page = passed.get(str(seq // SLOTS))
    passed_ms, digest = SLOT.unpack_from(page.packed, seq % SLOTS * SLOT.size) if page else (0, b"")
    return (passed_ms, digest) if any(digest) else None
