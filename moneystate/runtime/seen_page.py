"""The ids that `unique` has seen, packed in pages: `moneystate.api.SeenIds`.

The ids of one topic and key are in one entry, the *head*, while they are few. Otherwise they are in 2^depth *pages* by
the CRC-32 of the id, and the head has the depth. The ids of an entry are in the order of the times at which they were
seen. So one entry and one sweep serve many ids, and a batch rewrites only the pages that it adds to.

    id      UTF-8 of at most `MOST_TEXT` bytes; 0xff and 16 bytes: a UUID in canonical lower case;
            0xfe and 32 bytes: the SHA-256 of a longer text
"""

from __future__ import annotations

import hashlib
from binascii import unhexlify
from typing import Final

from moneystate.engine import avro
from moneystate.engine.avro import HEADER_BYTES, long_bytes, read_block, read_bytes, read_long, skip_bytes, string_bytes
from moneystate.engine.items import NO_TIME
from moneystate.runtime.cells import NEVER, Cell, Kind

UUID: Final = b"\xff"  # no UTF-8 text begins with these
DIGEST: Final = b"\xfe"
UUID_BYTES: Final = 16
UUID_TEXT: Final = 36
HYPHEN: Final = 45
MOST_TEXT: Final = 64
NO_IDS: Final = b""


class SeenIds:
    """The content of a head or a page. It never changes."""

    def __init__(self, depth: int, n: int, ids: bytes) -> None:
        self.depth = depth  # of a head: the ids are in 2^depth pages; 0: they are here
        self.n = n
        self.ids = ids  # the items of an encoded array

    def with_id(self, packed: bytes, at: int) -> SeenIds:
        return SeenIds(self.depth, self.n + 1, self.ids + packed + long_bytes(at))

    def seen_at(self, packed: bytes) -> int:
        """Returns when the id (`pack_id`) was last seen. NO_TIME: it is not here."""
        if self.ids.find(packed) < 0:
            return NO_TIME
        # the match may begin inside an item, so compare item by item
        latest = NO_TIME
        pos = 0
        while pos < len(self.ids):
            _, end = skip_bytes(self.ids, pos)
            at, after = read_long(self.ids, end)
            if self.ids[pos:end] == packed:
                latest = at
            pos = after
        return latest

    def after(self, time_ms: int) -> SeenIds:
        """The ids that were seen after `time_ms`."""
        pos = 0
        dropped = 0
        while pos < len(self.ids):
            _, end = skip_bytes(self.ids, pos)
            at, end = read_long(self.ids, end)
            if at > time_ms:
                break
            pos = end
            dropped += 1
        return SeenIds(self.depth, self.n - dropped, self.ids[pos:]) if dropped else self

    def oldest(self) -> int:
        """Returns when its first id was seen. Raises Malformed if there is none."""
        _, end = skip_bytes(self.ids, 0)
        return read_long(self.ids, end)[0]

    def items(self) -> list[tuple[int, bytes]]:
        """The times, with the packed ids."""
        items: list[tuple[int, bytes]] = []
        pos = 0
        while pos < len(self.ids):
            start = pos
            _, end = skip_bytes(self.ids, pos)
            at, pos = read_long(self.ids, end)
            items.append((at, self.ids[start:end]))
        return items


EMPTY: Final = SeenIds(0, 0, NO_IDS)


def pack_id(id: bytes) -> bytes:
    """Encodes an id as an item of a page has it."""
    if len(id) == UUID_TEXT:
        digits = _uuid(id)
        if digits:
            return string_bytes(UUID + digits)
    if len(id) > MOST_TEXT:
        return string_bytes(DIGEST + hashlib.sha256(id).digest())
    return string_bytes(id)


def _uuid(id: bytes) -> bytes:
    """The bytes of a canonical UUID, else nothing."""
    if id[8] != HYPHEN or id[13] != HYPHEN or id[18] != HYPHEN or id[23] != HYPHEN:
        return b""
    digits = id.replace(b"-", b"")
    if len(digits) != 2 * UUID_BYTES or not (digits.islower() or digits.isdigit()):
        return b""
    try:
        return unhexlify(digits)
    except ValueError:
        return b""


def id_text(packed: bytes) -> str:
    """The id for people: a digest in hex."""
    id, _ = read_bytes(packed, 0)
    if id.startswith(DIGEST):
        return f"sha256:{id[1:].hex()}"
    if not id.startswith(UUID):
        return id.decode()
    text = id[1:].hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class SeenKind(Kind):
    """The ids seen by `unique` in one topic. The value of an entry is a `SeenIds`."""

    def __init__(self, prefix: bytes, name: str, ttl_ms: int, header: bytes) -> None:
        super().__init__(prefix, name, ttl_ms, True)
        self.header = header

    def expires(self) -> bool:
        return True  # with `within_ms` 0, at once

    def decode(self, cell: Cell, stored: bytes) -> None:
        cell.sweep_at, pos = self._sweep_at(stored)
        depth, pos = read_long(stored, pos)
        n, ids, _ = read_block(stored, pos)
        cell.value = SeenIds(depth, n, ids)

    def times(self, stored: bytes) -> tuple[int, int]:
        return NEVER, self._sweep_at(stored)[0]

    def _sweep_at(self, stored: bytes) -> tuple[int, int]:
        if not stored.startswith(self.header):
            raise self.unknown_schema()
        return read_long(stored, HEADER_BYTES)

    def encode(self, cell: Cell) -> bytes | None:
        seen: SeenIds | None = cell.value
        if seen is None:
            return None
        out = bytearray(self.header)
        avro.write_long(out, 0 if cell.id else cell.sweep_at)  # a page has no sweep of its own
        avro.write_long(out, seen.depth)
        avro.write_block(out, seen.n, seen.ids)
        return bytes(out)
