"""Avro's binary encoding, as far as state and events need it.

Longs are zig-zag varints (Avro 1.12, "Binary encoding"); strings and bytes are a long and that many bytes. An array is
written as one block with its byte size (`-count`, `size`, items, `0`). Every Avro reader understands that, and the
engine can take an array's bytes without decoding its items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # a package for development only
    from mypy_extensions import i64

MAGIC: Final = b"\xc3\x01"
HEADER_BYTES: Final = 10  # the magic and the CRC-64-AVRO fingerprint of the writer schema
HEARTBEAT: Final = bytes.fromhex("c30100bc02ce2f7a6d09")  # those of a heartbeat, which may be in any input


class Malformed(Exception):
    """The bytes do not match the schema. `args[0]` says where."""


def write_long(out: bytearray, value: int) -> None:
    out += long_bytes(value)


def write_bytes(out: bytearray, value: bytes) -> None:
    write_long(out, len(value))
    out += value


def long_bytes(value: int) -> bytes:
    if MIN_PAIRED <= value < -MIN_PAIRED:  # event times and offsets
        number: i64 = value
        number = (number << 1) ^ (number >> 63)
        if number < 0x80:
            return ONE_BYTE[number]
        if number < 1 << 14:
            return LAST_PAIR[number]
        if number < 1 << 28:
            return PAIRS[number & 0x3FFF] + LAST_PAIR[number >> 14]
        if number < 1 << 42:
            return PAIRS[number & 0x3FFF] + PAIRS[number >> 14 & 0x3FFF] + LAST_PAIR[number >> 28]
        pairs = PAIRS[number & 0x3FFF] + PAIRS[number >> 14 & 0x3FFF]
        return pairs + PAIRS[number >> 28 & 0x3FFF] + LAST_PAIR[number >> 42]
    n = value << 1 if value >= 0 else ((-value - 1) << 1) | 1
    # Seven bits per byte, collected in one number: much faster than appending each byte.
    gathered = 0
    shift = 0
    while n > 0x7F:
        gathered |= ((n & 0x7F) | 0x80) << shift
        n >>= 7
        shift += 8
    return (gathered | n << shift).to_bytes((shift >> 3) + 1, "little")


def string_bytes(value: bytes) -> bytes:
    """An Avro string or bytes: the length of `value`, then `value`."""
    n = len(value)
    if n < 64:
        return SHORT_LENGTHS[n] + value
    return long_bytes(n) + value


ONE_BYTE: Final[list[bytes]] = [bytes([n]) for n in range(128)]
MORE: Final[list[bytes]] = [bytes([n | 0x80]) for n in range(128)]  # seven bits, with more behind them
MIN_PAIRED: Final = -(1 << 55)
# Two groups of seven bits, as bytes: with more groups behind them, and as the last ones.
PAIRS: Final[list[bytes]] = [low + high for high in MORE for low in MORE]
LAST_PAIR: Final[list[bytes]] = ONE_BYTE + [low + high for high in ONE_BYTE[1:] for low in MORE]
SHORT_LENGTHS: Final[list[bytes]] = [bytes([n << 1]) for n in range(64)]


def read_long(buf: bytes, pos: int) -> tuple[int, int]:
    """The long at `pos` and the position after it. Raises Malformed past the end or beyond 64 bits."""
    end = len(buf)
    if pos >= end:
        raise Malformed("a number is cut off")
    b = buf[pos]
    pos += 1
    if b < 0x80:
        return (b >> 1) ^ -(b & 1), pos
    n = b & 0x7F
    shift = 7
    while True:
        if pos >= end:
            raise Malformed("a number is cut off")
        b = buf[pos]
        pos += 1
        n |= (b & 0x7F) << shift
        if b < 0x80:
            break
        shift += 7
        if shift > 63:
            raise Malformed("a number of more than 64 bits")
    if n > 0xFFFFFFFFFFFFFFFF:
        raise Malformed("a number of more than 64 bits")
    return (n >> 1) ^ -(n & 1), pos


def skip_bytes(buf: bytes, pos: int) -> tuple[int, int]:
    """Start and end of the bytes or string whose length is at `pos`."""
    n, start = read_long(buf, pos)
    if n < 0 or start + n > len(buf):
        raise Malformed("a text or bytes field reaches beyond the record")
    return start, start + n


def read_bytes(buf: bytes, pos: int) -> tuple[bytes, int]:
    start, end = skip_bytes(buf, pos)
    return buf[start:end], end


def write_block(out: bytearray, count: int, items: bytes) -> None:
    """Writes an array of `count` items; `items` has their encodings, one after the other."""
    if count:
        write_long(out, -count)
        write_bytes(out, items)
    out.append(0)


def read_block(buf: bytes, pos: int) -> tuple[int, bytes, int]:
    """Count, item bytes and the position after an array written by `write_block`."""
    count, pos = read_long(buf, pos)
    if count == 0:
        return 0, b"", pos
    if count > 0:
        raise Malformed("an array block without its size: not written by this engine")
    items, pos = read_bytes(buf, pos)
    end, pos = read_long(buf, pos)
    if end != 0:
        raise Malformed("an array in more than one block: not written by this engine")
    return -count, items, pos
