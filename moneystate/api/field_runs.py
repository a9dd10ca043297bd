"""Reads fields that follow each other, for generated Avro codecs. It is compiled, which generated code is not: a record
of ten fields takes half the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moneystate.engine.avro import Malformed, read_long

if TYPE_CHECKING:  # a package for development only
    from mypy_extensions import i64

STRING: Final = 0
BYTES: Final = 1
LONG: Final = 2
BOOLEAN: Final = 3
MAYBE: Final = 4  # added to another kind: a union with null

Spec = list[tuple[str, int]]  # the fields' attributes, with their kinds


def read_fields(values: dict[str, Any], buf: bytes, start: int, spec: Spec) -> int:
    """Reads fields into `values`. Returns the position after them. Raises Malformed, IndexError if cut off."""
    pos: i64 = start
    size: i64 = len(buf)
    for name, tagged in spec:
        kind: i64 = tagged
        n: i64 = buf[pos]
        if kind >= MAYBE:
            kind -= MAYBE
            if n > 2:
                raise Malformed("a union branch that the schema does not have")
            pos += 1
            if n == 0:
                values[name] = None
                continue
            if n == 1:
                raise Malformed("a union branch that the schema does not have")
            n = buf[pos]
        if kind == BOOLEAN:
            values[name] = n != 0
            pos += 1
            continue
        if n < 0x80:
            pos += 1
            n = n >> 1 if n & 1 == 0 else -(n >> 1) - 1
        else:
            number, after = read_long(buf, pos)
            n = number
            pos = after
        if kind == LONG:
            values[name] = n
            continue
        end = pos + n
        if n < 0 or end > size:
            raise Malformed("a text or bytes field reaches beyond the record")
        part = buf[pos:end]
        values[name] = part.decode() if kind == STRING else part
        pos = end
    return pos
