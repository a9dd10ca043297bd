"""The schemas of records in topics: current ones by name and fingerprint, and all other released versions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from moneystate.engine.avro import HEADER_BYTES, MAGIC, Malformed
from moneystate.engine.processor import Rejected
from moneystate.errors import SetupError
from moneystate.records.avro_bodies import Skip, check_body, check_end, skip_of
from moneystate.records.avro_types import BadSchema, RecordType, Type, canonical_form, fingerprint, parse
from moneystate.records.rewriting import Misfit, rewriter

ReadBody = Callable[[bytes, int], bytes]
"""`read(value, pos)`: the value in canonical form, of a body that reaches from `pos` to the end. Raises Rejected."""

MOST_QUOTED: Final = 200  # characters of a schema, or of what is wrong with it


@dataclass(frozen=True)
class TypeSchema:
    """The schema of one record type."""

    source: dict[str, Any]  # content of the schema file
    type: RecordType
    canonical_form: str
    fingerprint: bytes  # 8 bytes of CRC-64-AVRO, little-endian as in single-object encoding
    skip: Skip  # checks a body
    any_skip: Skip  # checks a body whose decimals may have any digits

    @property
    def name(self) -> str:
        return self.type.short

    @property
    def full_name(self) -> str:
        return self.type.name

    @property
    def source_text(self) -> str:
        """`source` without white space."""
        return json.dumps(self.source, separators=(",", ":"))

    @property
    def prefix(self) -> bytes:
        """What stands before the body in canonical form: `C3 01` and the fingerprint."""
        return MAGIC + self.fingerprint


class SchemaSet:
    """Current schemas by full name and fingerprint. It is pickled as its sources, because the compiled
    checks cannot be pickled."""

    def __init__(self, sources: Iterable[dict[str, Any]], others: Iterable[dict[str, Any]] = ()) -> None:
        """Raises SetupError for a source that is not the schema of a record."""
        types = [_type_schema(source) for source in sources]
        self.by_fingerprint = {t.fingerprint: t for t in types}
        # further released versions, as text, by fingerprint
        self.others = {fingerprint(parse(source, foreign=True)): json.dumps(source) for source in others}
        self._by_full_name = {alias: t for t in types for alias in t.type.aliases} | {t.full_name: t for t in types}

    def __reduce__(self) -> tuple[type[SchemaSet], tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
        return SchemaSet, (
            [t.source for t in self.by_fingerprint.values()],
            [json.loads(s) for s in self.others.values()],
        )

    def open(self, value: bytes | None) -> TypeSchema:
        """The type of a value in canonical form, checked to the last byte. Raises Rejected. The body begins at
        `moneystate.engine.avro.HEADER_BYTES`. A decimal may have any digits, as Avro itself allows: what was read from
        one topic must go into another."""
        if value is None:
            raise Rejected("null_value")
        if len(value) < HEADER_BYTES or not value.startswith(MAGIC):
            raise Rejected("malformed", "no Avro single-object header")
        type_schema = self.by_fingerprint.get(value[len(MAGIC) : HEADER_BYTES])
        if type_schema is None:
            raise Rejected("unknown_schema", f"fingerprint {value[len(MAGIC) : HEADER_BYTES].hex()}")
        check_body(type_schema.any_skip, value, HEADER_BYTES)
        return type_schema

    def reader_of(self, writer_text: str, named: str) -> ReadBody:
        """How to read bodies of a writer's schema. `named`: what refusals call it. Raises Rejected("unknown_schema") if
        no type here can have such values."""
        try:
            return _naming(self._reader_of(writer_text), named)
        except Rejected as refusal:
            raise Rejected(refusal.reason, f"{named}: {refusal.detail}") from None

    def _reader_of(self, writer_text: str) -> ReadBody:
        try:
            writer = parse(json.loads(writer_text), foreign=True)
        except (BadSchema, ValueError, RecursionError) as e:
            raise Rejected("unknown_schema", f"its writer schema cannot be read: {str(e)[:MOST_QUOTED]}") from None
        if not isinstance(writer, RecordType):
            raise Rejected("unknown_schema", "not a record")
        known = self._by_full_name.get(writer.name)
        if known is None:
            raise Rejected("unknown_schema", f"no type {writer.name[:100]!r}")
        try:
            return _reader(known, writer)
        except Misfit as e:
            raise Rejected("unknown_schema", str(e)) from None


def _reader(known: TypeSchema, writer: Type) -> ReadBody:
    """Raises Misfit."""
    rewrite, skip = rewriter(known.type, writer), skip_of(writer, any_digits=True)

    def read_same(value: bytes, pos: int) -> bytes:
        check_body(known.skip, value, pos)
        return known.prefix + value[pos:]

    def read_other(value: bytes, pos: int) -> bytes:
        out = bytearray(known.prefix)
        try:
            check_end(rewrite(value, pos, out), value)
        except RecursionError:
            raise Rejected("malformed", "nested too deeply") from None
        except (Malformed, Misfit) as e:
            check_body(skip, value, pos)  # a damaged value is malformed, whether or not it would fit
            raise Rejected("unknown_schema" if isinstance(e, Misfit) else "malformed", str(e)) from None
        return bytes(out)

    return read_same if canonical_form(writer) == known.canonical_form else read_other


def _naming(read: ReadBody, schema: str) -> ReadBody:
    """The same reader, whose refusals name the writer's schema."""

    def named(value: bytes, pos: int) -> bytes:
        try:
            return read(value, pos)
        except Rejected as refusal:
            raise Rejected(refusal.reason, f"{schema}: {refusal.detail}") from None

    return named


def _type_schema(source: dict[str, Any]) -> TypeSchema:
    where = f"schema {json.dumps(source)[:MOST_QUOTED]}"
    try:
        parsed = parse(source)
    except BadSchema as e:
        raise SetupError(f"{where}: {e}.", "correct the schema.") from None
    if not isinstance(parsed, RecordType):
        raise SetupError(f"{where}: expected a record, found {parsed.kind}.", "give the schema of a record.")
    return TypeSchema(
        source, parsed, canonical_form(parsed), fingerprint(parsed), skip_of(parsed), skip_of(parsed, any_digits=True)
    )
