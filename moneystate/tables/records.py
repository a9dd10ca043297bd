"""Makes the record of a row: its key, and its value as canonical JSON, so that equal rows are equal bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from moneystate.engine.avro import Malformed
from moneystate.records.json_number import Number
from moneystate.records.json_text import canonical_text
from moneystate.records.reading import is_whole_number, key_bytes, key_text
from moneystate.records.type_names import HEARTBEAT, TYPE
from moneystate.tables.rows import Document, Read, Unreadable

TABLE_LOADED: Final = "TableLoaded"
DIGEST_BYTES: Final = 16
OVERHEAD_BYTES: Final = 512  # of a record in a request, beside its key and value
_OF_THE_PLATFORM: Final = (HEARTBEAT, TABLE_LOADED)

Check = Callable[[Document], object]


class Made(NamedTuple):
    """A row's record, or what is wrong with the row."""

    number: int
    key: bytes | None  # None: it cannot be known
    value: bytes | None  # None: the row cannot be loaded
    why: str = ""


class RecordMaker:
    """Makes records. `key`: the members of the document that are the key. `check` raises Malformed for a document that
    the table's readers would not take. `largest`: most bytes of a record."""

    def __init__(self, key: Sequence[str], largest: int, check: Check | None = None) -> None:
        self._key = tuple(key)
        self._largest = largest - OVERHEAD_BYTES
        self._check = check

    def __call__(self, read: Read) -> Made:
        if isinstance(read, Unreadable):
            return Made(read.number, None, None, read.why)
        try:
            key = key_bytes(key_text(tuple([self._part(name, read.document) for name in self._key])))
        except Malformed as e:
            return Made(read.number, None, None, str(e))
        try:
            return Made(read.number, key, self._value(key, read.document))
        except Malformed as e:
            return Made(read.number, key, None, str(e))

    def _part(self, name: str, document: Document) -> Any:
        value = document.get(name)
        if isinstance(value, BadCell):
            raise Malformed(f"{name}: {value}")
        if value is None:
            raise Malformed(f"{name}: expected a part of the key, found null")
        if type(value) is Number:
            if not is_whole_number(value):
                raise Malformed(f"{name}: expected a text or a whole number as a part of the key, found another number")
            return int(value)
        return value

    def _value(self, key: bytes, document: Document) -> bytes:
        for name, cell in document.items():
            if isinstance(cell, BadCell):
                raise Malformed(f"{name}: {cell}")
        if document.get(TYPE) in _OF_THE_PLATFORM:
            raise Malformed(f"{TYPE}: {document[TYPE]} is a record of the platform, not a row")
        if self._check is not None:
            self._check(document)
        try:
            value = canonical_text(document).encode()
        except UnicodeEncodeError:
            raise Malformed("a text that is not UTF-8") from None
        if len(key) + len(value) > self._largest:
            raise Malformed(f"a record of {len(key) + len(value):,} bytes, the topic takes {self._largest:,}")
        return value


class BadCell(str):
    """Stands in the place of a value that a cell does not have, and says why."""

    __slots__ = ()


def digest_of(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=DIGEST_BYTES).digest()
