"""Encodes notifications when they are inserted, so that what cannot be published fails with its record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

from moneystate.apply.outbox import LARGEST
from moneystate.apply.records import Refused
from moneystate.engine.avro import Malformed
from moneystate.errors import ConfigError
from moneystate.records.codec import Codec
from moneystate.records.exact_json import dumps
from moneystate.records.reading import key_bytes, key_text
from moneystate.records.schema import schema_of
from moneystate.records.schema_set import SchemaSet
from moneystate.records.shapes import Shapes
from moneystate.registry.confluent import confluent_format, subject_of
from moneystate.runtime.json_topic import AVRO, CONFLUENT, JSON


class Encoder:
    """Encodes the notifications of a target. `namespace`: of their schemas."""

    def __init__(self, topic: str, value_format: str, namespace: str, registry: str) -> None:
        self._topic = topic  # with prefix
        self._format = value_format
        self._shapes = Shapes(namespace)
        self._registry = registry
        self._encode: dict[type, Callable[[Any], bytes]] = {}

    def encode(self, notification: Any) -> tuple[bytes, bytes]:
        """Key and value. Raises Refused for one that is too large, TypeError and StepError for one that the handler
        should not have returned."""
        if not isinstance(notification, tuple) or len(notification) != 2:
            raise TypeError("expected a notification as a pair of record and key")
        record, key = notification
        encoded_key, value = _key(key), self._value(record)
        if len(encoded_key) + len(value) > LARGEST:
            raise Refused("too_large", f"a notification of more than {LARGEST:,} bytes")
        return encoded_key, value

    def _value(self, record: Any) -> bytes:
        encode = self._encode.get(type(record))
        if encode is None:
            encode = self._encode[type(record)] = self._encoder(type(record))
        return encode(record)

    def _encoder(self, cls: type) -> Callable[[Any], bytes]:
        if cls is dict and self._format == JSON:
            return lambda record: dumps(record).encode()
        if not is_dataclass(cls):
            raise TypeError(f"expected a dataclass as the record of a notification, found {cls.__name__}")
        shape = self._shapes.record(cls, "a notification")
        codec = Codec(shape)
        if self._format == JSON:
            return codec.to_json
        if self._format == AVRO:
            return codec.encode
        written = confluent_format(SchemaSet([schema_of(shape)]), self._registry, subject_of(self._topic))
        return lambda record: written.from_canonical(codec.encode(record))


def _key(key: Any) -> bytes:
    if isinstance(key, bytes):
        return key
    try:
        return key_bytes(key_text(key if isinstance(key, tuple) else (key,)))
    except Malformed as e:
        raise TypeError(f"the key of a notification: {e}") from None


def check_format(value_format: str, registry: str, where: str) -> None:
    """Raises ConfigError."""
    if value_format == CONFLUENT and not registry:
        raise ConfigError(f"{where}: expected schema-registry for the format confluent, found none.", "add it.")
