"""A record's codec, single-object Avro and JSON, from generated code (`generate`, `generate_json`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moneystate.api import avro_parts
from moneystate.api.avro_parts import Unencodable
from moneystate.api.generate import AvroCode
from moneystate.api.generate_json import JsonCode
from moneystate.api.generate_transcoder import Transcode, Transcoder
from moneystate.api.json_text import MAX_RECORD_LEVELS, parse
from moneystate.api.schema import header_of
from moneystate.api.shapes import Record, paths
from moneystate.api.wrong_values import wrong_value
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.errors import StepError


class Codec:
    """`header`: magic and fingerprint of the record's schema. `read(buf, pos)` and `write(record)` are the body alone,
    generated; `copy(record)` gives an object that shares nothing that can be changed."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.header = header_of(record)
        code = AvroCode()
        number = code.record(record)
        made = code.source.run(record.name)
        self.read: Callable[[bytes, int], tuple[Any, int]] = made[f"read_{number}"]
        self.write: Callable[[Any], bytes] = made[f"write_{number}"]
        self.copy: Callable[[Any], Any] = made[f"copy_{number}"]
        code.source.names["read_json"] = avro_parts.read_own_json
        self.read_own: Callable[[bytes, int], tuple[Any, int]] = code.source.run(record.name)[f"read_{number}"]
        self.source = code.source.text()
        json_code = JsonCode(record)
        self.json_source = json_code.source.text()
        self._from_json, self._to_json = json_code.functions()
        self._transcode: Transcode | None = None  # made for outputs alone, when the first is written
        self._personal: tuple[str, ...] | None = None
        self._from_row: Callable[[Any], Any] | None = None

    @property
    def personal(self) -> tuple[str, ...]:
        """Paths of the record's personal fields."""
        if self._personal is None:
            self._personal = tuple(paths(self.record, lambda f: f.personal))
        return self._personal

    def decode(self, value: bytes) -> Any:
        """A value of this schema. Raises Malformed."""
        record, end = self.read_body(value, HEADER_BYTES)
        if end != len(value):
            raise TrailingBytes(f"{len(value) - end} bytes after the body")
        return record

    def read_body(self, value: bytes, pos: int) -> tuple[Any, int]:
        return self._body(self.read, value, pos)

    def read_own_body(self, value: bytes, pos: int) -> tuple[Any, int]:
        """Of state and outputs: JSON in them is canonical, as this program wrote it."""
        return self._body(self.read_own, value, pos)

    def _body(self, read: Callable[[bytes, int], tuple[Any, int]], value: bytes, pos: int) -> tuple[Any, int]:
        try:
            return read(value, pos)
        except IndexError:
            raise Malformed("the record is cut off") from None
        except UnicodeDecodeError:
            raise Malformed("a text that is not UTF-8") from None

    def encode(self, value: Any) -> bytes:
        """In single-object encoding. Raises StepError where the record has a value that its field cannot hold."""
        return self.header + self.write_body(value)

    def write_body(self, value: Any) -> bytes:
        try:
            return self.write(value)
        except (Unencodable, TypeError, AttributeError, ValueError, IndexError) as e:
            raise StepError(wrong_value(self.record, value) or f"{self.record.cls.__name__}: {e}.") from None

    def from_json(self, document: Any) -> Any:
        """From what `json_text.parse` gave. Raises Malformed."""
        return self._from_json(document)

    def from_row(self, document: Any) -> Any:
        """The same with members that are named as the fields are declared: those of a database's columns."""
        if self._from_row is None:
            self._from_row, _ = JsonCode(self.record, by_name=True).functions()
        return self._from_row(document)

    def from_json_text(self, text: str) -> Any:
        return self._from_json(parse(text, MAX_RECORD_LEVELS))

    def transcode(self, value: bytes, pos: int) -> bytes:
        """The body of a canonical value, as this program wrote it, in JSON. Raises Malformed, and StepError for what
        JSON does not have."""
        if self._transcode is None:
            self._transcode = Transcoder(self.record).function()
        try:
            text: str = self._body(self._transcode, value, pos)[0]
            return text.encode()
        except Unencodable as e:
            raise StepError(f"{self.record.cls.__name__}: {e}.") from None

    def to_json(self, value: Any) -> bytes:
        try:
            return self._to_json(value).encode()
        except (Unencodable, TypeError, AttributeError, ValueError, IndexError) as e:
            raise StepError(wrong_value(self.record, value) or f"{self.record.cls.__name__}: {e}.") from None


class TrailingBytes(Malformed):
    """Bytes left over after a body."""
