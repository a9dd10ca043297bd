"""Says which field of an Avro body cannot be read. Only called for a body that has been refused."""

from __future__ import annotations

from moneystate.engine.avro import Malformed, read_long
from moneystate.records.avro_parts import Unencodable
from moneystate.records.shapes import Maybe, Record, Shape
from moneystate.records.transcoder import part_of

UNREADABLE = (Malformed, IndexError, UnicodeDecodeError)


def misread(record: Record, buf: bytes, pos: int, error: Exception) -> Malformed:
    """The reason, with the path of the field in front. `error`: one of `UNREADABLE`."""
    why = "the record is cut off" if isinstance(error, IndexError) else str(error)
    if isinstance(error, UnicodeDecodeError):
        why = "a string is not UTF-8"
    path = _path(record, buf, pos)
    return Malformed(f"{path}: {why}" if path else why)


def _path(shape: Shape, buf: bytes, pos: int) -> str:
    """The path of the first field that cannot be read; "" if there is none. Items of arrays and maps have no path."""
    if isinstance(shape, Maybe):
        branch, after = read_long(buf, pos)
        return _path(shape.inner, buf, after) if branch == 1 else ""
    if not isinstance(shape, Record):
        return ""
    for f in shape.fields:
        try:
            pos = part_of(f.shape, {}).add(buf, pos, [])
        except UNREADABLE:
            inner = _path_in(f.shape, buf, pos)
            return f"{f.wire}.{inner}" if inner else f.wire
        except Unencodable:  # a number that JSON does not have: what follows cannot be found
            return ""
    return ""


def _path_in(shape: Shape, buf: bytes, pos: int) -> str:
    try:
        return _path(shape, buf, pos)
    except UNREADABLE:  # not even the branch of a union
        return ""
