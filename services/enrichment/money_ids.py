"""Money ids in state: the union [string, fixed(16)]. Almost all ids are UUIDs, whose text is more than twice as long.

Only UUIDs in canonical lower case are packed. So unpacking returns the original text.
"""

from __future__ import annotations

from typing import Final

from moneystate.engine.avro import Malformed, read_bytes, read_long, string_bytes

UUID_BYTES: Final = 16
UUID_TEXT: Final = 36
HYPHEN: Final = 45


def pack_id(money_id: bytes) -> bytes:
    """Encodes an id as the union: the branch, then the id."""
    if len(money_id) == UUID_TEXT:
        packed = _uuid(money_id)
        if len(packed) == UUID_BYTES:
            return b"\x02" + packed
    return b"\x00" + string_bytes(money_id)


def _uuid(money_id: bytes) -> bytes:
    """The 16 bytes of a canonical UUID, else fewer bytes."""
    if money_id[8] != HYPHEN or money_id[13] != HYPHEN or money_id[18] != HYPHEN or money_id[23] != HYPHEN:
        return b""
    digits = money_id.replace(b"-", b"")
    if digits.lower() != digits or len(digits) != 2 * UUID_BYTES:
        return b""
    try:
        return bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        return b""


def _text(packed: bytes) -> bytes:
    text = packed.hex().encode()
    return text[:8] + b"-" + text[8:12] + b"-" + text[12:16] + b"-" + text[16:20] + b"-" + text[20:]


def read_id(buf: bytes, pos: int) -> tuple[bytes, int]:
    """The id at `pos` as text, and the position after it."""
    branch, pos = read_long(buf, pos)
    if branch == 0:
        return read_bytes(buf, pos)
    end = pos + UUID_BYTES
    if branch != 1 or end > len(buf):
        raise Malformed("a money id is cut off, or its union branch is not in the schema")
    return _text(buf[pos:end]), end


def skip_id(buf: bytes, pos: int) -> int:
    """The position after the id at `pos`."""
    branch, pos = read_long(buf, pos)
    if branch == 1:
        return pos + UUID_BYTES
    length, pos = read_long(buf, pos)
    return pos + length
