"""Reads Avro single-object encoding of any released schema version, because producers may be ahead or behind.

The core reads the current version of each type. A value of another released version is resolved to that one here,
before the core sees it; all else passes as it is, for the core to judge.
"""

from __future__ import annotations

from typing import Any

from moneystate.engine.avro import HEADER_BYTES, MAGIC
from moneystate.kafka.formats.base import Undecodable
from moneystate.kafka.formats.resolution import Reader, naming, reader_for
from moneystate.kafka.formats.schemas import SchemaSet


class AnyVersion:
    """The value format `avro` where there is more than one version."""

    name = "avro"

    def __init__(self, schemas: SchemaSet) -> None:
        self._schemas = schemas
        self._readers: dict[bytes, Reader] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_readers": {}}  # closures

    def to_canonical(self, value: bytes | None) -> bytes:
        if value is None:
            raise Undecodable("null_value")
        fingerprint = value[len(MAGIC) : HEADER_BYTES]
        if not value.startswith(MAGIC) or fingerprint not in self._schemas.others:
            return value
        read = self._readers.get(fingerprint)
        if read is None:
            read = naming(fingerprint.hex(), reader_for(self._schemas, self._schemas.others[fingerprint]))
            self._readers[fingerprint] = read
        return read(value, HEADER_BYTES)

    def from_canonical(self, value: bytes) -> bytes:
        return value
