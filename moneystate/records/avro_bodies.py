"""Strictly validates an Avro body: one pass over its bytes, each of which must be accounted for.

Booleans are 0 or 1, ints have 32 bits, texts are UTF-8, and no byte is left over. fastavro accepts more. Validation
runs for every record, so it is compiled to closures, one for each part of a schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moneystate.engine.avro import Malformed, read_long, skip_bytes
from moneystate.engine.processor import Rejected
from moneystate.records.avro_parts import INT_MAX, INT_MIN
from moneystate.records.avro_types import (
    ArrayType,
    EnumType,
    FixedType,
    MapType,
    PrimitiveType,
    RecordType,
    Type,
    UnionType,
)
from moneystate.records.json_parts import inside

Skip = Callable[[bytes, int], int]
"""`skip(buf, pos)` is the position after the value at `pos`. Raises Malformed."""

MOST_EMPTY: Final = 16  # items without bytes in a block


def check_body(skip: Skip, buf: bytes, pos: int) -> None:
    """Raises Rejected unless `buf` has exactly one value from `pos` to the end."""
    try:
        end = skip(buf, pos)
    except Malformed as error:
        raise Rejected("malformed", str(error)) from None
    except RecursionError:
        raise Rejected("malformed", "nested too deeply") from None
    check_end(end, buf)


def check_end(end: int, buf: bytes) -> None:
    """Raises Rejected unless the value, which reaches to `end`, is the last one in `buf`."""
    if end != len(buf):
        raise Rejected("trailing_bytes", f"{len(buf) - end} bytes are left over after the body")


def skip_of(schema_type: Type, *, any_digits: bool = False) -> Skip:
    """The walk over values of a type. `any_digits`: decimals may have more digits than the type says."""
    return SkipCompiler(any_digits).skip(schema_type)


class SkipCompiler:
    """Compiles each record once, however often others refer to it."""

    def __init__(self, any_digits: bool) -> None:
        self.any_digits = any_digits
        self.records: dict[int, Skip] = {}  # by the identity of the type

    def skip(self, one: Type) -> Skip:
        if isinstance(one, UnionType):
            return _union([self.skip(branch) for branch in one.branches])
        if isinstance(one, RecordType):
            return self._record(one)
        if isinstance(one, ArrayType):
            return _blocks(self.skip(one.items))
        if isinstance(one, MapType):
            return _blocks(_sequence([_skip_string, self.skip(one.values)]))
        if isinstance(one, EnumType):
            return _enum(len(one.symbols))
        if isinstance(one, FixedType):
            return _fixed(one.size)
        assert isinstance(one, PrimitiveType)
        is_decimal = one.kind == "bytes" and one.logical == "decimal" and not self.any_digits
        return _decimal(one.precision) if is_decimal else SKIPS[one.kind]

    def _record(self, record: RecordType) -> Skip:
        if id(record) in self.records:  # it may contain itself, so it is looked up when used
            return lambda buf, pos: self.records[id(record)](buf, pos)
        self.records[id(record)] = _skip_null
        fields = [(f.name, self.skip(f.type)) for f in record.fields]

        def skip(buf: bytes, pos: int) -> int:
            for name, part in fields:
                try:
                    pos = part(buf, pos)
                except Malformed as error:
                    raise inside(name, error) from None
            return pos

        self.records[id(record)] = skip
        return skip


def _sequence(parts: list[Skip]) -> Skip:
    def skip(buf: bytes, pos: int) -> int:
        for part in parts:
            pos = part(buf, pos)
        return pos

    return skip


def _union(branches: list[Skip]) -> Skip:
    def skip(buf: bytes, pos: int) -> int:
        index, pos = read_branch(buf, pos, len(branches))
        return branches[index](buf, pos)

    return skip


def _blocks(item: Skip) -> Skip:
    return lambda buf, pos: read_blocks(buf, pos, lambda at: item(buf, at))[1]


def read_branch(buf: bytes, pos: int, branches: int) -> tuple[int, int]:
    """The number of a union's branch, and the position after it. Raises Malformed."""
    index, pos = read_long(buf, pos)
    if not 0 <= index < branches:
        raise Malformed("a union has no such branch")
    return index, pos


def read_blocks(buf: bytes, pos: int, item: Callable[[int], int]) -> tuple[int, int]:
    """The number of items of an array or map, and the position after it. `item(pos)` takes one and returns the position
    after it. Raises Malformed.

    A count larger than the bytes that are left is rejected even if items take no bytes (null): no writer needs it, and
    four bytes could cause years of work. So is a block of many such items, of which a record could have very many."""
    total = 0
    while True:
        count, pos = read_long(buf, pos)
        if count == 0:
            return total, pos
        end = None
        if count < 0:
            size, pos = read_long(buf, pos)
            count, end = -count, pos + size
        if count > len(buf) - pos:
            raise Malformed("an array or map has more items than there are bytes")
        for n in range(count):
            before, pos = pos, item(pos)
            if pos == before and count - n > MOST_EMPTY:
                raise Malformed("an array has many items without bytes")
        if end is not None and pos != end:
            raise Malformed("a block of an array or map has not the size that it says")
        total += count


def _enum(symbols: int) -> Skip:
    def skip(buf: bytes, pos: int) -> int:
        index, pos = read_long(buf, pos)
        if not 0 <= index < symbols:
            raise Malformed("an enum has no such symbol")
        return pos

    return skip


def _fixed(size: int) -> Skip:
    def skip(buf: bytes, pos: int) -> int:
        if pos + size > len(buf):
            raise Malformed("a fixed field reaches beyond the record")
        return pos + size

    return skip


def _decimal(precision: int) -> Skip:
    check = digits_check(precision)

    def skip(buf: bytes, pos: int) -> int:
        start, end = skip_bytes(buf, pos)
        check(buf[start:end])
        return end

    return skip


def digits_check(precision: int) -> Callable[[bytes], None]:
    """A function that raises Malformed for the bytes of a decimal that has more digits, or no bytes."""
    limit = 10**precision
    always_fits = (limit.bit_length() - 1) // 8  # no number of so few bytes reaches the limit

    def check(content: bytes) -> None:
        if not content:
            raise Malformed("a decimal without bytes")
        if len(content) > always_fits and abs(int.from_bytes(content, "big", signed=True)) >= limit:
            raise Malformed(f"a decimal of more than {precision} digits")

    return check


def _skip_null(buf: bytes, pos: int) -> int:
    return pos


def _skip_boolean(buf: bytes, pos: int) -> int:
    if pos >= len(buf):
        raise Malformed("a boolean is cut off")
    if buf[pos] > 1:
        raise Malformed("a boolean is neither 0 nor 1")
    return pos + 1


def _skip_int(buf: bytes, pos: int) -> int:
    value, pos = read_long(buf, pos)
    if not INT_MIN <= value <= INT_MAX:
        raise Malformed("an int of more than 32 bits")
    return pos


def _skip_long(buf: bytes, pos: int) -> int:
    return read_long(buf, pos)[1]


def _skip_bytes(buf: bytes, pos: int) -> int:
    return skip_bytes(buf, pos)[1]


def _skip_string(buf: bytes, pos: int) -> int:
    start, end = skip_bytes(buf, pos)
    try:
        buf[start:end].decode()
    except UnicodeDecodeError:
        raise Malformed("a text is not UTF-8") from None
    return end


SKIPS: Final[dict[str, Skip]] = {
    "null": _skip_null,
    "boolean": _skip_boolean,
    "int": _skip_int,
    "long": _skip_long,
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _skip_bytes,
    "string": _skip_string,
}
