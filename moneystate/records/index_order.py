"""Encodes index values as bytes that sort like the values: numbers by size, strings by code point, tuples part by part.

    value      its parts, one after the other; a string or a number is a tuple of one part
    number     10, sign and length (1 byte), magnitude (big-endian); the byte is 80 + length from 0 on; for negative
               numbers it is 7F - length, and each byte of the magnitude is complemented
    string     20, UTF-8 with 00 as 00 FF, 00 01; of a string that takes more than MAX_TEXT_BYTES, its first HEAD_BYTES
               bytes and the SHA-256 of all of it, instead of the UTF-8

The bytes of a tuple begin with the bytes of each of its prefixes. `END` follows a value. It is less than any part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from moneystate.errors import ServiceError

END: Final = b"\x00"
_AFTER: Final = b"\xff"  # no part begins with it
_NUMBER: Final = b"\x10"
_TEXT: Final = b"\x20"
_TEXT_END: Final = b"\x00\x01"
MAX_NUMBER_BYTES: Final = 127
MAX_VALUE_BYTES: Final = 65_535
MAX_TEXT_BYTES: Final = 4_096
HEAD_BYTES: Final = 2_000


class Span(NamedTuple):
    """A range of an index: from `low` (inclusive) to `high` (exclusive)."""

    low: bytes
    high: bytes


def span_of(value: Any, where: str) -> Span:
    """The range of the value and of all tuples that begin with it."""
    low = encode(value, where)
    return Span(low, low + _AFTER)


def span_between(low: Any, high: Any, where: str) -> Span:
    """The range between two values. None: no limit."""
    return Span(b"" if low is None else encode(low, where), _AFTER if high is None else encode(high, where))


def encode_all(by: Callable[[Any], Any], record: Any, where: str) -> set[bytes]:
    """The index values of a record. Raises ServiceError for a value that an index cannot have."""
    values = by(record)
    if values is None:
        return set()
    return {encode(value, where) for value in values} if isinstance(values, list) else {encode(values, where)}


def check(by: Callable[[Any], Any], record: Any, where: object) -> None:
    """Raises ServiceError if an index cannot have the value of the record, and any error of the function."""
    value = by(record)
    if value is None or type(value) is str:
        return
    for one in value if isinstance(value, list) else (value,):
        encode(one, where)


def encode(value: Any, where: object) -> bytes:
    parts = value if isinstance(value, tuple) else (value,)
    encoded = b"".join([_part(part, where) for part in parts])
    if not encoded or len(encoded) > MAX_VALUE_BYTES:
        raise ServiceError(
            f"{where}: expected a value of at most {MAX_VALUE_BYTES:,} bytes and one part or more, found "
            f"{len(encoded):,} bytes.",
            "index a shorter value, or None.",
        )
    return encoded


def text(part: bytes) -> bytes:
    """A string part, from its UTF-8."""
    return _TEXT + part.replace(b"\x00", b"\x00\xff") + _TEXT_END


def read_text(buf: bytes, pos: int) -> tuple[bytes, int]:
    """The UTF-8 of the string part at `pos`, and the position after it."""
    end = buf.index(_TEXT_END, pos)
    return buf[pos + 1 : end].replace(b"\x00\xff", b"\x00"), end + len(_TEXT_END)


def end_of_value(buf: bytes, pos: int) -> int:
    """The position of the `END` of the value that starts at `pos`."""
    while buf[pos : pos + 1] != END:
        if buf[pos : pos + 1] == _TEXT:
            pos = buf.index(_TEXT_END, pos) + len(_TEXT_END)
        else:
            length = buf[pos + 1]
            pos += 2 + (length - 0x80 if length >= 0x80 else 0x7F - length)
    return pos


def _part(part: Any, where: object) -> bytes:
    if isinstance(part, str):
        content = part.encode("utf-8", "surrogatepass")
        encoded = text(content)
        if len(encoded) <= MAX_TEXT_BYTES:
            return encoded
        return text(content[:HEAD_BYTES] + hashlib.sha256(content).digest())
    if isinstance(part, int):
        return _NUMBER + _number(int(part), where)
    raise ServiceError(
        f"{where}: expected a string, a whole number or a tuple of these, found {part!r}.",
        "return one of these, a list of them, or None if the index should not find the record.",
    )


def _number(n: int, where: object) -> bytes:
    size = (abs(n).bit_length() + 7) // 8
    if size > MAX_NUMBER_BYTES:
        raise ServiceError(
            f"{where}: expected a number of at most {MAX_NUMBER_BYTES} bytes, found {size}.", "index a smaller number."
        )
    if n >= 0:
        return bytes([0x80 + size]) + n.to_bytes(size, "big")
    return bytes([0x7F - size]) + ((1 << (8 * size)) - 1 + n).to_bytes(size, "big")
