"""Strictly validates an Avro body: one pass over its bytes, each of which must be accounted for.

fastavro alone is not strict enough: it accepts any byte as a boolean, ints of more than 32 bits, and ignores bytes that
are left over. Validation runs for every record, so it is compiled to closures, one for each part of a schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moneystate.engine.avro import Malformed, read_long, skip_bytes
from moneystate.kafka.formats.base import Undecodable
from moneystate.records.json_parts import inside

Skip = Callable[[bytes, int], int]
"""`skip(buf, pos)` is the position after the value at `pos`. Raises Malformed."""

MOST_EMPTY = 16  # items without bytes in a block
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def check_body(skip: Skip, buf: bytes, pos: int) -> None:
    """Raises Undecodable unless `buf` has exactly one value from `pos` to the end."""
    try:
        end = skip(buf, pos)
    except Malformed as error:
        raise Undecodable("malformed", str(error)) from None
    except RecursionError:
        raise Undecodable("malformed", "nested too deeply") from None
    if end != len(buf):
        raise Undecodable("trailing_bytes", f"{len(buf) - end} bytes are left over after the body")


def compile_skip(schema: Any) -> Skip:
    """The walk over values of `schema`, as fastavro's parse_schema returns it (names in full).

    Decimals are checked against their precision where the schema still has its logical types.
    """
    return _compile(schema, {})


def _compile(schema: Any, named: dict[str, Skip]) -> Skip:
    if isinstance(schema, list):
        return _union([_compile(branch, named) for branch in schema])
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else _reference(schema, named)
    kind = schema["type"]
    if kind in ("record", "error"):
        return _record(schema, named)
    if kind == "array":
        return _blocks(_compile(schema["items"], named))
    if kind == "map":
        return _blocks(_sequence([_skip_string, _compile(schema["values"], named)]))
    if kind == "enum":
        named[schema["name"]] = skip = _enum(len(schema["symbols"]))
        return skip
    if kind == "fixed":
        named[schema["name"]] = skip = _fixed(schema["size"])
        return skip
    if kind == "bytes" and schema.get("logicalType") == "decimal":
        return _decimal(schema["precision"])
    return _compile(kind, named)


def _reference(name: str, named: dict[str, Skip]) -> Skip:
    """A type by its name. It is looked up when used, because a record may contain itself."""
    return lambda buf, pos: named[name](buf, pos)


def _record(schema: Any, named: dict[str, Skip]) -> Skip:
    fields = [(field["name"], _compile(field["type"], named)) for field in schema["fields"]]

    def skip(buf: bytes, pos: int) -> int:
        for name, part in fields:
            try:
                pos = part(buf, pos)
            except Malformed as error:
                raise inside(name, error) from None
        return pos

    named[schema["name"]] = skip
    return skip


def _sequence(parts: list[Skip]) -> Skip:
    def skip(buf: bytes, pos: int) -> int:
        for part in parts:
            pos = part(buf, pos)
        return pos

    return skip


def _union(branches: list[Skip]) -> Skip:
    def skip(buf: bytes, pos: int) -> int:
        index, pos = read_long(buf, pos)
        if not 0 <= index < len(branches):
            raise Malformed("a union has no such branch")
        return branches[index](buf, pos)

    return skip


def _blocks(item: Skip) -> Skip:
    """An array or map. A count larger than the bytes that are left is rejected even if items take no bytes (null): no
    writer needs it, and four bytes could cause years of work. So is a block of many such items, of which a record could
    have very many."""

    def skip(buf: bytes, pos: int) -> int:
        while True:
            count, pos = read_long(buf, pos)
            if count == 0:
                return pos
            end = None
            if count < 0:
                size, pos = read_long(buf, pos)
                count, end = -count, pos + size
            if count > len(buf) - pos:
                raise Malformed("an array or map has more items than there are bytes")
            for n in range(count):
                before, pos = pos, item(buf, pos)
                if pos == before and count - n > MOST_EMPTY:
                    raise Malformed("an array has many items without bytes")
            if end is not None and pos != end:
                raise Malformed("a block of an array or map has not the size that it says")

    return skip


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
    limit = 10**precision
    always_fits = (limit.bit_length() - 1) // 8  # no number of so few bytes reaches the limit

    def skip(buf: bytes, pos: int) -> int:
        start, end = skip_bytes(buf, pos)
        if start == end:
            raise Malformed("a decimal without bytes")
        if end - start > always_fits and abs(int.from_bytes(buf[start:end], "big", signed=True)) >= limit:
            raise Malformed(f"a decimal of more than {precision} digits")
        return end

    return skip


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


_PRIMITIVES: dict[str, Skip] = {
    "null": _skip_null,
    "boolean": _skip_boolean,
    "int": _skip_int,
    "long": _skip_long,
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _skip_bytes,
    "string": _skip_string,
}
