"""A record's codec for single-object Avro and JSON. Its JSON functions are generated (`generate_json`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.errors import StepError
from moneystate.records import write_parts
from moneystate.records.avro_parts import Unencodable
from moneystate.records.generate_json import JsonCode
from moneystate.records.json_text import MAX_RECORD_LEVELS, parse
from moneystate.records.misread import UNREADABLE, misread
from moneystate.records.read_parts import Part, RecordPart
from moneystate.records.schema import header_of
from moneystate.records.shapes import Record, is_json, paths, personal_paths
from moneystate.records.transcoder import Transcoder
from moneystate.records.untouched import exact_of
from moneystate.records.wrong_values import wrong_value

_WRONG_VALUES: Final = (Unencodable, TypeError, AttributeError, ValueError, LookupError)
ENCODING_ADVICE: Final = "correct the value in the service's code, or change the type of the field."


class Codec:
    """Encodes and decodes one type of record. The body is the encoding without the header."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.header = header_of(record)  # magic and fingerprint of the record's schema
        self.exact = exact_of(record)
        self.has_json = any(paths(record, lambda field: is_json(field.shape)))
        self.reader = RecordPart(record, False, {})
        self.writer = write_parts.RecordPart(record, False, {})
        self.own_reader = RecordPart(record, True, {}) if self.has_json else self.reader
        self._from_json, self._to_json = JsonCode(record).functions()
        self._transcoder: Transcoder | None = None  # made at the first use: only outputs need it
        self._personal: tuple[str, ...] | None = None
        self._from_row: Callable[[Any], Any] | None = None
        self._write_for_json: write_parts.RecordPart | None = None  # made at the first use

    @property
    def personal(self) -> tuple[str, ...]:
        """Paths of the record's personal parts."""
        if self._personal is None:
            self._personal = tuple(personal_paths(self.record))
        return self._personal

    def decode(self, value: bytes) -> Any:
        """Decodes a value with header. Raises Malformed."""
        record, end = self.read_body(value, HEADER_BYTES)
        check_end(value, end)
        return record

    def read_body(self, value: bytes, pos: int) -> tuple[Any, int]:
        return self._read(self.reader, value, pos)

    def read_own_body(self, value: bytes, pos: int) -> tuple[Any, int]:
        """Works like `read_body`, for values that this program wrote: their JSON fields are canonical and are not
        checked."""
        return self._read(self.own_reader, value, pos)

    def _read(self, part: Part, value: bytes, pos: int) -> tuple[Any, int]:
        try:
            record, after = part.read(value, pos)
            return record, after
        except UNREADABLE as e:
            raise misread(self.record, value, pos, e) from None

    def encode(self, value: Any) -> bytes:
        """Encodes a record with header. Raises StepError if a field cannot hold its value."""
        return self.header + self.write_body(value)

    def write_body(self, value: Any) -> bytes:
        try:
            return self.writer.body(value)
        except _WRONG_VALUES as e:
            raise self._unencodable(value, e) from None

    def encode_for_json(self, value: Any) -> bytes:
        """Works like `encode`. Also refuses what JSON cannot represent: infinite numbers, and times outside the years 1
        to 9999."""
        if self._write_for_json is None:
            self._write_for_json = write_parts.RecordPart(self.record, True, {})
        try:
            return self.header + self._write_for_json.body(value)
        except _WRONG_VALUES as e:
            raise self._unencodable(value, e, in_json=True) from None

    def _unencodable(self, value: Any, error: Exception, in_json: bool = False) -> StepError:
        line = wrong_value(self.record, value, in_json) or f"{self.record.cls.__name__}: {error}."
        return StepError(line, ENCODING_ADVICE)

    def from_json(self, document: Any) -> Any:
        """A record from a parsed document (`json_text.parse`). Raises Malformed."""
        return self._from_json(document)

    def from_row(self, document: Any) -> Any:
        """Works like `from_json`, but members have the names of the fields as declared, such as a database's
        columns."""
        if self._from_row is None:
            self._from_row, _ = JsonCode(self.record, by_name=True).functions()
        return self._from_row(document)

    def from_json_text(self, text: str) -> Any:
        return self._from_json(parse(text, MAX_RECORD_LEVELS))

    def transcode(self, value: bytes, pos: int) -> bytes:
        """Turns the body of a value that this program wrote into JSON. Raises Malformed, and StepError for a value that
        JSON cannot represent."""
        if self._transcoder is None:
            self._transcoder = Transcoder(self.record)
        try:
            text, _ = self._transcoder.read(value, pos)
            return text.encode()
        except UNREADABLE as e:
            raise misread(self.record, value, pos, e) from None
        except Unencodable as wrong:  # a compiled function has one type for a name
            raise StepError(f"{self.record.cls.__name__}: {wrong}.", ENCODING_ADVICE) from None

    def to_json(self, value: Any) -> bytes:
        try:
            return self._to_json(value).encode()
        except _WRONG_VALUES as e:
            raise self._unencodable(value, e) from None


class TrailingBytes(Malformed):
    """There are bytes after the body."""


def check_end(value: bytes, end: int) -> None:
    """Raises TrailingBytes unless a value ends with its body."""
    if end != len(value):
        raise TrailingBytes(f"{len(value) - end} bytes after the body")
