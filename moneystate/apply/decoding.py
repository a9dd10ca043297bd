"""Makes what reads a topic's records, from the topic's format and the type that a target takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from moneystate.apply.debezium import ChangeReader
from moneystate.apply.json_values import json_reader
from moneystate.apply.plain_values import PlainReader
from moneystate.apply.records import (
    HEARTBEAT,
    OTHER_TYPE,
    Decode,
    Decoded,
    Delete,
    Ignored,
    Put,
    Record,
    Refused,
)
from moneystate.engine.avro import Malformed
from moneystate.engine.place import MARK
from moneystate.engine.processor import InputTopic, Rejected
from moneystate.errors import ConfigError
from moneystate.kafka.convert import converters
from moneystate.records.avro_types import RecordType
from moneystate.records.json_number import Number
from moneystate.records.other_versions import AnyVersion
from moneystate.records.platform_records import HEARTBEAT_RECORD
from moneystate.records.schema import schema_of
from moneystate.records.schema_set import SchemaSet, TypeSchema
from moneystate.records.type_names import TYPE, is_heartbeat
from moneystate.registry.confluent import confluent_format
from moneystate.runtime.json_topic import AVRO, DEBEZIUM, JSON, parse_value
from moneystate.schemas import topic_schemas

ToCanonical = Callable[[bytes], bytes]


def decoder(topic: str, value_format: str, type_name: str, service: str, schemas: str, registry: str) -> Decode:
    """Returns what reads the records of a topic. `topic`: without prefix. `service`: MODULE:NAME of the service that
    writes it; `schemas`: a file or folder with its schemas. JSON needs neither. Raises ConfigError."""
    if value_format == DEBEZIUM:
        return _marked(_ChangeDecoder())
    if value_format == JSON and not service and not schemas:
        return _marked(_JsonDecoder(type_name))
    known = schema_set(service, schemas)
    if value_format == JSON and not service:
        return _marked(_TypedJsonDecoder(known, type_name))
    return _marked(_TypedDecoder(known, _to_canonical(topic, value_format, service, registry, known), type_name))


def record_of(type_name: str, service: str, schemas: str) -> RecordType | None:
    """The schema of a type; None: there is none, as for JSON without a schema. Raises ConfigError."""
    if not service and not schemas:
        return None
    return _type(schema_set(service, schemas), type_name).type


def schema_set(service: str, schemas: str) -> SchemaSet:
    """Raises ConfigError, and SetupError for damaged schemas."""
    if service:
        return topic_schemas.schema_set(service)
    if not schemas:
        raise ConfigError(
            "expected the schemas of the records, found none.", "give service or schemas, or use the format json."
        )
    path = Path(schemas)
    files = sorted(path.rglob("*.avsc")) if path.is_dir() else [path]
    try:
        sources = [json.loads(file.read_text()) for file in files]
    except (OSError, ValueError) as e:
        raise ConfigError(
            f"schemas {schemas}: expected Avro schemas, but {e}.", "name a file or folder of them."
        ) from None
    if not sources:
        raise ConfigError(f"schemas {schemas}: expected files *.avsc, found none.", "name a file or folder of schemas.")
    return SchemaSet([*sources, schema_of(HEARTBEAT_RECORD)])


def _type(known: SchemaSet, name: str) -> TypeSchema:
    """The wanted type; without a name the only one beside heartbeats."""
    known_types = {t.full_name: t for t in known.by_fingerprint.values() if t.full_name != HEARTBEAT_RECORD.name}
    mine = [t for t in known_types.values() if not name or name in (t.name, t.full_name)]
    if len(mine) != 1:
        raise ConfigError(
            f"type {name!r}: expected one record type of that name, found {len(mine)}.",
            f"use one of {', '.join(sorted(known_types)[:20])}.",
        )
    return mine[0]


def _to_canonical(topic: str, value_format: str, service: str, registry: str, known: SchemaSet) -> ToCanonical:
    if service:
        made = converters({topic: value_format}, [InputTopic(0, topic, True, 0)], registry or None, service=service)
        return made.get(0, _as_it_is)
    if value_format == AVRO:
        return AnyVersion(known)
    return confluent_format(known, registry)


def _as_it_is(value: bytes) -> bytes:
    return value


def _marked(decode: Decode) -> Decode:
    """Marks of timed streams are heartbeats of some format."""

    def read(record: Record) -> Decoded:
        if record.headers and record.key is None and any(name == MARK for name, _ in record.headers):
            return Ignored(HEARTBEAT)
        return decode(record)

    return read


class _TypedDecoder:
    """Records with a schema."""

    def __init__(self, known: SchemaSet, to_canonical: ToCanonical, type_name: str) -> None:
        self._known = known
        self._to_canonical = to_canonical
        self._wanted = _type(known, type_name)
        self._reader = PlainReader(self._wanted.type)

    def __call__(self, record: Record) -> Decoded:
        if record.value is None:
            return Delete()
        try:
            value = self._to_canonical(record.value)
            schema = self._known.open(value)
        except Rejected as e:
            raise Refused(e.reason, e.detail) from None
        if schema is not self._wanted:
            return Ignored(HEARTBEAT if schema.full_name == HEARTBEAT_RECORD.name else OTHER_TYPE)
        return Put(self._reader.read(value))


class _JsonDecoder:
    """JSON objects without a schema. `type_name`: other types are ignored; empty: all are taken."""

    def __init__(self, type_name: str) -> None:
        self._type = type_name

    def __call__(self, record: Record) -> Decoded:
        if record.value is None:
            return Delete()
        document = parsed(record.value)
        if type(document) is not dict:
            raise Refused("malformed", "not an object")
        if is_heartbeat(document):
            return Ignored(HEARTBEAT)
        if self._type and document.get(TYPE) != self._type:
            return Ignored(OTHER_TYPE)
        return Put(document)


class _TypedJsonDecoder:
    """JSON objects of types that schemas describe. Their member `type` has the name."""

    def __init__(self, known: SchemaSet, type_name: str) -> None:
        """Raises ConfigError."""
        wanted, self._names = _type(known, type_name), [t.name for t in known.by_fingerprint.values()]
        problem = f"two types {wanted.name}" if self._names.count(wanted.name) > 1 else ""
        if any(f.name == TYPE for f in wanted.type.fields):
            problem = f"a field {TYPE}"
        if problem:
            raise ConfigError(
                f"{wanted.full_name}: expected a type that the member {TYPE} tells apart, found {problem}.",
                "rename one, or leave the topic in plain Avro.",
            )
        self._wanted = wanted.name
        self._read = json_reader(wanted.type)

    def __call__(self, record: Record) -> Decoded:
        if record.value is None:
            return Delete()
        document = parsed(record.value)
        if type(document) is not dict:
            raise Refused("malformed", "not an object")
        name = document.get(TYPE)
        if type(name) is not str:
            raise Refused("malformed", f"{TYPE}: " + ("not a text" if TYPE in document else "missing"))
        if is_heartbeat(document):
            return Ignored(HEARTBEAT)
        if name == HEARTBEAT_RECORD.short and name != self._wanted:
            raise Refused("malformed", "no heartbeat")
        if name not in self._names:
            raise Refused("unknown_schema", f"type {name[:100]!r}")
        if name != self._wanted:
            return Ignored(OTHER_TYPE)
        try:
            return Put(self._read(document))
        except Malformed as e:
            raise Refused("malformed", str(e)) from None


class _ChangeDecoder:
    def __init__(self) -> None:
        self._reader = ChangeReader()

    def __call__(self, record: Record) -> Decoded:
        key = None if record.key is None else _key_document(record.key)
        if record.value is None:
            return Delete(self._reader.key_fields(key))
        document = parsed(record.value)
        if type(document) is dict and is_heartbeat(document):
            return Ignored(HEARTBEAT)
        return self._reader.read(document, key)


def parsed(value: bytes) -> Any:
    """The document of a JSON value. Raises Refused."""
    try:
        return parse_value(value)
    except Malformed as e:
        raise Refused("malformed", str(e)) from None


def _key_document(key: bytes) -> Any:
    try:
        return parse_value(key)
    except Malformed:
        return None


def natural(value: Any) -> Any:
    """A parsed JSON value with int and Decimal as numbers, as handlers take it."""
    if isinstance(value, Number):
        return int(value) if value.lstrip("-").isdigit() else _decimal_or_text(value)
    if type(value) is dict:
        return {name: natural(item) for name, item in value.items()}
    return [natural(item) for item in value] if type(value) is list else value


def _decimal_or_text(text: Number) -> Any:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise Refused("malformed", "a number beyond all bounds") from None
