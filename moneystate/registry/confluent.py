"""The value format `confluent`: a zero byte, the registry's schema id (4 bytes, big-endian), the Avro body."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from moneystate.engine.avro import HEADER_BYTES, MAGIC
from moneystate.engine.processor import Rejected
from moneystate.errors import ConfigError
from moneystate.records.schema_set import ReadBody, SchemaSet, TypeSchema
from moneystate.registry.client import HIGHEST_ID, ID_WAIT_S, RegistryClient
from moneystate.registry.references import self_contained

_FRAME = struct.Struct(">bI")
_MAGIC = 0


def subject_of(topic: str) -> str:
    """The registry's subject for the values of a topic: Confluent's TopicNameStrategy."""
    return f"{topic}-value"


def confluent_format(
    schemas: SchemaSet, registry_url: str | None, subject: str | None = None, id_wait_s: float | None = None
) -> ConfluentFormat:
    """`subject`: for writing. `id_wait_s`: how long it waits for an id that the registry does not know; None: as long
    as a batch does. The registry is not asked yet. Raises ConfigError for a missing or malformed URL."""
    if not registry_url:
        raise ConfigError(
            "format confluent: expected the URL of a schema registry, found none.", "give --schema-registry."
        )
    wait_s = ID_WAIT_S if id_wait_s is None else id_wait_s
    return ConfluentFormat(schemas, RegistryClient(registry_url), subject, wait_s)


class ConfluentFormat:
    """Values of any writer schema in the registry that resolves to a schema of ours with the same full name.

    A record is rejected as `unknown_schema` if its schema cannot be used: another type, JSON Schema or Protobuf,
    amounts with another scale, times in another unit. It is also rejected if its id is
    not one that a registry can assign. If the registry does not know the id yet, this waits for `id_wait_s`. A replay
    may find the id known, so the record must not become a dead letter: UnknownSchemaId then ends the batch, as
    RegistryUnavailable does if the registry does not answer. Values are written with our schema. Several type names
    under one subject need the compatibility rule NONE.
    """

    def __init__(
        self, schemas: SchemaSet, registry: RegistryClient, subject: str | None = None, id_wait_s: float = ID_WAIT_S
    ) -> None:
        self._schemas = schemas
        self._registry = registry
        self._subject = subject  # our schema is registered under it; None: the format only reads
        self._id_wait_s = id_wait_s
        self._readers: dict[int, ReadBody] = {}
        self._texts: dict[int, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_readers": {}}  # closures; the registry's answers are kept by process

    def __call__(self, value: bytes | None) -> bytes:
        """The value in canonical form. Raises Rejected."""
        if value is None:
            raise Rejected("null_value")
        schema_id = _id_in(value)
        read = self._readers.get(schema_id)
        if read is None:
            read = self._readers[schema_id] = self._reader(schema_id)
        return read(value, _FRAME.size)

    def schema_of(self, value: bytes) -> str:
        """The Avro schema that the value names, with all that it refers to. Raises Rejected."""
        schema_id = _id_in(value)
        text = self._texts.get(schema_id)
        if text is None:
            text = self._texts[schema_id] = self._text(schema_id)
        return text

    def from_canonical(self, value: bytes) -> bytes:
        """The topic's value for a value in canonical form. Raises Rejected."""
        type_schema = self._schemas.open(value)
        return _FRAME.pack(_MAGIC, self._id_of(type_schema)) + value[HEADER_BYTES:]

    def register(self, headers: Iterable[bytes]) -> None:
        """Registers the schemas of values that begin so. `from_canonical` then does not have to ask the registry."""
        for header in headers:
            self._id_of(self._schemas.by_fingerprint[header[len(MAGIC) :]])

    def _id_of(self, type_schema: TypeSchema) -> int:
        if self._subject is None:
            raise ConfigError(
                "format confluent: expected a subject to write under, found none.", "give the topic's subject."
            )
        return self._registry.register(self._subject, type_schema.source_text)

    def _reader(self, schema_id: int) -> ReadBody:
        try:
            return self._schemas.reader_of(self._text(schema_id), f"id {schema_id}")
        except Rejected as refusal:
            return _refusing(refusal.detail)

    def _text(self, schema_id: int) -> str:
        """The Avro schema of that id, with all that it refers to. Raises Rejected("unknown_schema")."""
        registered = self._registry.awaited(schema_id, self._id_wait_s)
        if registered.schema_type != "AVRO":
            raise Rejected("unknown_schema", f"id {schema_id} is {registered.schema_type}")
        if not registered.references:
            return registered.text
        try:
            return self_contained(registered, lambda one: self._registry.awaited_version(one, self._id_wait_s))
        except Rejected as refusal:
            raise Rejected("unknown_schema", f"id {schema_id}: {refusal.detail}") from None


def _id_in(value: bytes) -> int:
    """The schema id. Raises Rejected."""
    if len(value) < _FRAME.size or value[0] != _MAGIC:
        raise Rejected("malformed", "no Confluent header")
    schema_id: int = _FRAME.unpack_from(value)[1]
    if schema_id > HIGHEST_ID:
        raise Rejected("unknown_schema", f"no registry gives out id {schema_id}")
    return schema_id


def _refusing(detail: str) -> ReadBody:
    def read(value: bytes, pos: int) -> bytes:
        raise Rejected("unknown_schema", detail)

    return read
