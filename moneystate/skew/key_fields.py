"""Reads the key of a record: its Kafka key, or a field of its value in any format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, Final

from fastavro import parse_schema, schemaless_reader

from moneystate.engine.avro import HEADER_BYTES, MAGIC, Malformed
from moneystate.engine.processor import Rejected
from moneystate.errors import ConfigError
from moneystate.records.schema_set import SchemaSet
from moneystate.registry.client import RegistryClient
from moneystate.registry.confluent import ConfluentFormat
from moneystate.runtime.json_topic import AVRO, JSON, parse_value
from moneystate.schemas.topic_schemas import schema_set

Keys = Callable[[bytes | None, bytes | None], list[bytes]]  # of a Kafka key and a value
Parse = Callable[[bytes], Any]

CONFLUENT_HEADER_BYTES: Final = 5
# fastavro raises these for bytes that do not fit the schema.
BROKEN: Final = (EOFError, ValueError, TypeError, LookupError, OverflowError, AttributeError)


def kafka_key(key: bytes | None, value: bytes | None) -> list[bytes]:
    return [] if key is None else [key]


def field_keys(path: str, parse: Parse) -> Keys:
    """Returns what reads the keys at `path`, such as `user.id`. A list on the way gives a key for each of its items.
    Its result raises Rejected."""
    names = path.split(".")

    def keys(key: bytes | None, value: bytes | None) -> list[bytes]:
        if value is None:
            return []
        return [text.encode("utf-8", "surrogatepass") for text in _texts(parse(value), names)]

    return keys


def _texts(value: Any, names: list[str]) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _texts(item, names)
    elif names:
        if isinstance(value, dict) and names[0] in value:
            yield from _texts(value[names[0]], names[1:])
    elif isinstance(value, dict):
        yield json.dumps(value, default=str, sort_keys=True)
    elif value is not None:
        yield str(value)


def parser(value_format: str, service: str, registry: str) -> Parse:
    """Returns what reads values of the format avro, json or confluent. `service`: MODULE:NAME of the service whose
    schemas Avro values have. Its result raises Rejected. Raises ConfigError."""
    if value_format == JSON:
        return _json
    if value_format == AVRO:
        if not service:
            raise ConfigError(
                "--key of a topic in avro: expected the service whose schemas its values have, found none.",
                "add --service NAME, or say the topic's format with --format.",
            )
        return _single_object(schema_set(service))
    return _confluent(ConfluentFormat(SchemaSet([]), RegistryClient(registry)))


def _json(value: bytes) -> Any:
    try:
        return parse_value(value)
    except Malformed as e:
        raise Rejected("malformed", str(e)) from None


def _single_object(known: SchemaSet) -> Parse:
    schemas = {t.prefix: parse_schema(t.source) for t in known.by_fingerprint.values()}
    schemas |= {MAGIC + fingerprint: parse_schema(json.loads(text)) for fingerprint, text in known.others.items()}

    def parse(value: bytes) -> Any:
        schema = schemas.get(value[:HEADER_BYTES])
        if schema is None:
            raise Rejected("unknown_schema")
        return _body(value[HEADER_BYTES:], schema)

    return parse


def _confluent(values: ConfluentFormat) -> Parse:
    """Parses by the writers' own schemas."""
    schemas: dict[str, Any] = {}

    def parse(value: bytes) -> Any:
        text = values.schema_of(value)
        if text not in schemas:
            schemas[text] = parse_schema(json.loads(text))
        return _body(value[CONFLUENT_HEADER_BYTES:], schemas[text])

    return parse


def _body(body: bytes, schema: Any) -> Any:
    try:
        return schemaless_reader(BytesIO(body), schema, None)
    except BROKEN as e:
        raise Rejected("malformed", type(e).__name__) from None
