"""Extracts a record's key and time from a field, a path, a Kafka header, or with a function of the record.

key="order_id"                      a field
key="customer.id"                   a path
key=("shop", "order_id")            composite: the JSON array of its parts, `["s1","o7"]`
key=ms.Header("ce_source")          a Kafka header
key=lambda e: [e.payer, e.payee]    several keys; the record is processed once for each
time="placed_at", time=ms.Header("ce_time"), time=lambda e: e.seconds * 1000
time=ms.arrival                     the record's Kafka timestamp, which the source reads
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from moneystate.engine.avro import Malformed
from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME
from moneystate.errors import ServiceError
from moneystate.records import iso_time
from moneystate.records.json_text import quote
from moneystate.records.shapes import MILLIS_KIND, Maybe, Plain, Record, Shape, Symbols
from moneystate.records.types import Arrival, Header

MAX_KEY_BYTES: Final = 65_535
AFTER, BEFORE = "after.", "before."  # path prefixes in change events
_WHOLE_NUMBER: Final = re.compile("-?[0-9]+")
_KEY_KINDS: Final = ("string", "long")


Key: TypeAlias = str | Header | tuple[str | Header, ...] | Callable[[Any], Any]
Time: TypeAlias = str | Header | Arrival | Callable[[Any], int]
Headers = Mapping[str, bytes | None]
NO_HEADERS: Final[Headers] = {}


def path_of(record: Record, path: str, where: str, argument: str) -> tuple[Callable[[Any], Any], Shape]:
    """A function that gets the value at a path of fields (None if a record on the way is None), and the value's
    shape. Raises ServiceError if there is no such path."""
    shape: Shape = record
    names = path.split(".")
    optional = False
    for name in names:
        if isinstance(shape, Maybe):
            shape, optional = shape.inner, True
        field = shape.field(name) if isinstance(shape, Record) else None
        if field is None:
            has = ", ".join([f.name for f in shape.fields]) if isinstance(shape, Record) else "no fields"
            cls = shape.cls.__name__ if isinstance(shape, Record) else path.rpartition(f".{name}")[0]
            raise ServiceError(
                f"{where}: {argument}={path!r}, but {cls} has no field {name!r}; it has {has}.",
                f"name a field of {cls} as {argument}=, or add one.",
            )
        shape = field.shape
    if not optional:
        return operator.attrgetter(path), shape
    return partial(_walk, names), shape if isinstance(shape, Maybe) else Maybe(shape)


def _walk(names: list[str], value: Any) -> Any:
    for name in names:
        if value is None:
            return None
        value = getattr(value, name)
    return value


def time_reader(record: Record, time: Time, where: str) -> Callable[[Any], int]:
    """A function from a record to its event time in ms. Raises ServiceError."""
    if isinstance(time, str):
        read, shape = path_of(record, time, where, "time")
        if shape != Plain(MILLIS_KIND):
            raise ServiceError(
                f"{where}: time={time!r} is not a time.",
                f"declare the field {record.cls.__name__}.{time} as ms.Millis.",
            )
        return read
    return elsewhere if isinstance(time, (Header, Arrival)) else time


def elsewhere(record: Any) -> int:
    """A placeholder for a time that the record itself does not have: `header_time` reads it from a header, and the
    source takes the Kafka timestamp or, in a timed stream, the place."""
    return 0


def checked_time(time: Any) -> int:
    """Raises Malformed if `time` is not a valid event time."""
    if type(time) is not int:
        raise Malformed(f"expected an event time in ms, found {type(time).__name__}")
    if time < MIN_EVENT_TIME or time > MAX_EVENT_TIME:
        raise Malformed("a time outside the years 1 to 9999")
    return time


def header_time(headers: Headers, name: str) -> int:
    text = header_text(headers, name)
    return checked_time(int(text) if is_whole_number(text) and len(text) < 20 else iso_time.to_ms(text))


def is_whole_number(text: str) -> bool:
    """Whether the text is an integer as JSON writes it; `isdigit` also accepts texts that `int` does not."""
    return _WHOLE_NUMBER.fullmatch(text) is not None


def header_text(headers: Headers, name: str) -> str:
    """The header's text. Raises Malformed if the record has no such header."""
    content = headers.get(name)
    if content is None:
        raise Malformed(f"no header {name}")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Malformed(f"header {name}: not UTF-8") from None


def key_parts(record: Record, key: Key, where: str, changes: bool = False) -> list[Callable[[Any], Any] | Header]:
    """A reader for each part of the key. A function that returns whole keys counts as one part. `changes`: the record
    is a change event; for a deletion, the key is read from `before`. Raises ServiceError."""
    parts = key if isinstance(key, tuple) else (key,)
    if not parts:
        raise ServiceError(f"{where}: key=() names no field.", "name a field as key=.")
    key_readers: list[Callable[[Any], Any] | Header] = []
    for part in parts:
        if isinstance(part, str):
            read, shape = path_of(record, part, where, "key")
            inner = shape.inner if isinstance(shape, Maybe) else shape
            if not isinstance(inner, Symbols) and (not isinstance(inner, Plain) or inner.kind not in _KEY_KINDS):
                raise ServiceError(
                    f"{where}: key={part!r} is neither a string nor a whole number.", "use another field."
                )
            if changes and part.startswith(AFTER):
                before, _ = path_of(record, BEFORE + part.removeprefix(AFTER), where, "key")
                read = partial(_either, read, before)
            key_readers.append(read)
        elif isinstance(part, Header) or not isinstance(key, tuple):
            key_readers.append(part)
        else:
            raise ServiceError(
                f"{where}: expected a field, a header or a function as key, found {part!r}.", "correct key=."
            )
    return key_readers


def _either(first: Callable[[Any], Any], second: Callable[[Any], Any], value: Any) -> Any:
    content = first(value)
    return second(value) if content is None else content


def key_text(parts: tuple[Any, ...]) -> str:
    """The text of a key: its only part, or a JSON array of its parts. Raises Malformed."""
    for part in parts:
        if type(part) is not str and type(part) is not int:
            raise Malformed(f"expected a string or a whole number as the key, found {type(part).__name__}")
    if len(parts) == 1:
        return str(parts[0])
    return "[" + ",".join([quote(str(part)) for part in parts]) + "]"


def key_bytes(text: str) -> bytes:
    """A key's UTF-8. Raises Malformed."""
    try:
        key = text.encode()
    except UnicodeEncodeError:
        raise Malformed("a key with half of a surrogate pair") from None
    if len(key) > MAX_KEY_BYTES:
        raise Malformed(f"a key of more than {MAX_KEY_BYTES:,} bytes")
    return key


class KeyReader:
    """Reads the keys of a record."""

    def __init__(self, record: Record, key: Key, where: str, changes: bool = False) -> None:
        self.parts = key_parts(record, key, where, changes)
        self.is_function = callable(key)
        self.needs_headers = any(isinstance(part, Header) for part in self.parts)
        self.only_field: Callable[[Any], Any] | None = None  # for the most common key, of one field
        first = self.parts[0]
        if len(self.parts) == 1 and not isinstance(first, Header) and not self.is_function:
            self.only_field = first

    def keys(self, value: Any, headers: Headers = NO_HEADERS) -> list[bytes]:
        """The record's keys without duplicates, in the order in which a function returned them. Raises Malformed."""
        if self.only_field is not None:
            part = self.only_field(value)
            return [key_bytes(part if type(part) is str else key_text((part,)))]
        if self.is_function:
            return self._from_function(value)
        parts = [header_text(headers, part.name) if isinstance(part, Header) else part(value) for part in self.parts]
        return [key_bytes(key_text(tuple(parts)))]

    def _from_function(self, value: Any) -> list[bytes]:
        function = self.parts[0]
        assert not isinstance(function, Header)
        returned = function(value)
        keys = returned if isinstance(returned, list) else [returned]
        if len(keys) == 1 and type(keys[0]) is str:
            return [key_bytes(keys[0])]
        texts = [key_text(key if isinstance(key, tuple) else (key,)) for key in keys]
        return list(dict.fromkeys([key_bytes(text) for text in texts]))
