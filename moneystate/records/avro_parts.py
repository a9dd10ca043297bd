"""Runtime helpers that generated Avro codecs and `transcoder` call for single fields."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from operator import index
from typing import Any, Final

from moneystate.engine.avro import Malformed, long_bytes, read_long, skip_bytes, string_bytes
from moneystate.records.json_value import Json, json_as_is, json_of_text

LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1
INT_MIN: Final = -(1 << 31)
INT_MAX: Final = (1 << 31) - 1
_EXACT: Final = Context(prec=2_000, Emax=999_999, Emin=-999_999)
_DOUBLE: Final = struct.Struct("<d")

# Maps the first byte of a length to the length; -1: more bytes follow.
LENGTHS: Final[list[int]] = [-1 if n & 0x80 or n & 1 else n >> 1 for n in range(256)]
# Maps the first byte of a long to the long, if it has only one byte.
LONGS: Final[list[int]] = [(n >> 1) ^ -(n & 1) for n in range(128)]
SMALL: Final[list[bytes]] = [long_bytes(n) for n in range(4096)]


class Unencodable(Exception):
    """A field cannot hold its value. `args[0]` says which value and why."""


def long_of(value: Any) -> bytes:
    """`value`: a whole number of any type."""
    number: int = value if type(value) is int else index(value)
    if number < LONG_MIN or number > LONG_MAX:
        raise Unencodable("a number of more than 64 bits")
    return long_bytes(number)


def no_int32() -> None:
    raise Unencodable("a number of more than 32 bits")


def double_of(value: Any) -> bytes:
    """`value`: a number of any type."""
    try:
        return _DOUBLE.pack(value)
    except (struct.error, OverflowError):
        raise Unencodable("no number of 64 bits") from None


def finite_of(value: Any) -> bytes:
    encoded = double_of(value)
    if not math.isfinite(_DOUBLE.unpack(encoded)[0]):
        no_json(value)
    return encoded


def no_json(value: Any) -> None:
    raise Unencodable(f"JSON cannot represent {value!r}")


BOOLEANS: Final = {False: b"\x00", True: b"\x01"}


def bytes_of(value: Any) -> bytes:
    """The bytes of an object that is not plain bytes."""
    if not isinstance(value, (bytes, bytearray)):
        raise Unencodable("no bytes")
    return bytes(value)


def items_of(value: Any) -> Sequence[Any]:
    """The items of an object that is not a plain list. A set has no order, so it cannot be one."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        raise Unencodable("no list")
    return value


def members_of(value: Any) -> Mapping[str, Any]:
    """The members of an object that is not a plain dict."""
    if not isinstance(value, Mapping):
        raise Unencodable("no dict")
    return value


def read_double(buf: bytes, pos: int) -> tuple[float, int]:
    if pos + 8 > len(buf):
        raise Malformed("a number is cut off")
    value: float = _DOUBLE.unpack_from(buf, pos)[0]
    return value, pos + 8


def read_text(buf: bytes, pos: int) -> tuple[str, int]:
    start, end = skip_bytes(buf, pos)
    return buf[start:end].decode(), end


def read_boolean(buf: bytes, pos: int) -> tuple[bool, int]:
    return buf[pos] != 0, pos + 1


def json_bytes(value: Json) -> bytes:
    return string_bytes(value.text.encode())


def read_json(buf: bytes, pos: int) -> tuple[Json, int]:
    text, pos = read_text(buf, pos)
    return json_of_text(text), pos


def read_own_json(buf: bytes, pos: int) -> tuple[Json, int]:
    """Reads JSON that this program wrote, which is canonical."""
    text, pos = read_text(buf, pos)
    return json_as_is(text), pos


def read_count(buf: bytes, pos: int) -> tuple[int, int]:
    """The number of items of the block at `pos` of an array or map; 0: it has ended."""
    count, pos = read_long(buf, pos)
    if count < 0:
        count = -count
        _, pos = read_long(buf, pos)
    if count > len(buf) - pos:
        raise Malformed("more items than bytes")
    return count, pos


def unscaled(value: Decimal, precision: int, scale: int) -> int:
    """`value` times 10**scale, exactly: nothing is ever rounded. Raises Unencodable."""
    if not value.is_finite():
        raise Unencodable("no number")
    if value and value.adjusted() + scale >= precision:
        raise Unencodable(f"more than {precision} digits")
    if value and value.adjusted() < -scale:  # below the smallest exponent, `scaleb` would give 0
        raise Unencodable(f"more than {scale} places")
    scaled = value.scaleb(scale, _EXACT)
    whole = int(scaled)
    if whole != scaled:
        raise Unencodable(f"more than {scale} places")
    return whole


def exact_bytes(value: Decimal, precision: int, scale: int) -> bytes:
    return string_bytes(whole_bytes(unscaled(value, precision, scale)))


def whole_bytes(whole: int) -> bytes:
    """The fewest bytes for an unscaled number, as Java has them. fastavro uses one more for -128, -32768 and so on."""
    return whole.to_bytes((whole + (whole < 0)).bit_length() // 8 + 1, "big", signed=True)


def read_exact(buf: bytes, pos: int, precision: int, scale: int) -> tuple[Decimal, int]:
    start, end = skip_bytes(buf, pos)
    if end - start > precision:
        raise Malformed(f"a number of more than {precision} digits")
    whole = int.from_bytes(buf[start:end], "big", signed=True)
    if abs(whole) >= 10**precision:
        raise Malformed(f"a number of more than {precision} digits")
    return Decimal(whole).scaleb(-scale, _EXACT), end


def symbol_number(numbers: dict[str, bytes], value: Any) -> bytes:
    number = numbers.get(value)
    if number is None:
        raise Unencodable(f"expected one of {', '.join(numbers)}, found {value!r}")
    return number


def read_symbol(symbols: tuple[str, ...], buf: bytes, pos: int) -> tuple[str, int]:
    n, pos = read_long(buf, pos)
    if n < 0 or n >= len(symbols):
        raise Malformed("an enum symbol that the schema does not have")
    return symbols[n], pos


def read_named(symbols: tuple[str, ...], buf: bytes, pos: int) -> tuple[str, int]:
    """Reads a Literal with symbols that are not Avro names. It is encoded as a string."""
    text, pos = read_text(buf, pos)
    if text not in symbols:
        raise Malformed("a string that is not one of the field's symbols")
    return text, pos
