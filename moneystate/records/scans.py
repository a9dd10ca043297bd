"""Takes time and key out of a record's Avro without decoding it: the source needs no more of most records.

It is for records of plain fields whose time and key are fields, and whose construction runs no code of the service. It
never refuses a record: what it does not take is decoded, which finds the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME
from moneystate.engine.processor import Decoded
from moneystate.records.construction import has_dict
from moneystate.records.read_parts import BOOLEAN, LONG, MAYBE, MOST_SHIFT, STRING, kind_of
from moneystate.records.reading import MAX_KEY_BYTES, Key, Time
from moneystate.records.shapes import MILLIS_KIND, Plain, Record

if TYPE_CHECKING:  # a package for development only
    from mypy_extensions import i64

NO_KEY: Final = -1


class Scan:
    """The scan of one type of record."""

    def __init__(self, kinds: list[int], time_at: int, key_at: int) -> None:
        self.kinds = kinds  # of the fields (`read_parts`)
        self.time_at = time_at
        self.key_at = key_at  # NO_KEY: only the record's time counts

    def decoded(self, value: bytes) -> Decoded | None:
        """Returns what `moneystate.engine.processor.Decoder` decodes. None: it has to be decoded."""
        try:
            end, time, start, stop = scan_fields(value, HEADER_BYTES, self.kinds, self.time_at, self.key_at)
        except (Malformed, IndexError, UnicodeDecodeError):
            return None
        if end != len(value) or time < MIN_EVENT_TIME or time > MAX_EVENT_TIME or stop - start > MAX_KEY_BYTES:
            return None
        return value, time, None if self.key_at == NO_KEY else value[start:stop]


def scan_of(record: Record, time: Time | None, key: Key | None) -> Scan | None:
    """`key` None: the record's key does not count. None: its records have to be decoded."""
    kinds = [kind_of(field.shape) for field in record.fields]
    names = [field.name for field in record.fields]
    shapes = {field.name: field.shape for field in record.fields}
    if None in kinds or not has_dict(record) or not isinstance(time, str) or shapes.get(time) != Plain(MILLIS_KIND):
        return None
    if key is not None and (not isinstance(key, str) or shapes.get(key) != Plain("string")):
        return None
    known = [kind for kind in kinds if kind is not None]
    return Scan(known, names.index(time), NO_KEY if key is None else names.index(key))


def scan_fields(buf: bytes, start: int, kinds: list[int], time_at: int, key_at: int) -> tuple[int, int, int, int]:
    """Checks fields as a record's part reads them, without making objects of them. Returns the position after them, the
    number in field `time_at`, and where the text of field `key_at` begins and ends. The position -1: they
    have to be decoded. Raises UnicodeDecodeError, IndexError if cut off."""
    pos: i64 = start
    size: i64 = len(buf)
    time: i64 = 0
    key_start: i64 = 0
    key_end: i64 = 0
    field: i64 = -1
    for tagged in kinds:
        field += 1
        kind: i64 = tagged
        n: i64 = buf[pos]
        pos += 1
        if kind >= MAYBE:
            kind -= MAYBE
            if n == 0:
                continue
            if n != 2:
                return -1, 0, 0, 0
            n = buf[pos]
            pos += 1
        if kind == BOOLEAN:
            continue
        if n >= 0x80:
            n &= 0x7F
            shift: i64 = 7
            while True:
                b: i64 = buf[pos]
                pos += 1
                n |= (b & 0x7F) << shift
                if b < 0x80:
                    break
                shift += 7
                if shift > MOST_SHIFT:
                    return -1, 0, 0, 0
        n = (n >> 1) ^ -(n & 1)
        if kind == LONG:
            if field == time_at:
                time = n
            continue
        end = pos + n
        if n < 0 or end > size:
            return -1, 0, 0, 0
        if kind == STRING:
            part = buf[pos:end]
            if not part.isascii():
                part.decode()
            if field == key_at:
                key_start = pos
                key_end = end
        pos = end
    return pos, time, key_start, key_end
