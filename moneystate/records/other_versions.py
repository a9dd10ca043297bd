"""Reads Avro single-object encoding of any released schema version, because producers may be ahead or behind.

The core reads the current version of each type. A value of another released version is rewritten as that one here,
before the core sees it; all else passes as it is, for the core to judge.
"""

from __future__ import annotations

from typing import Any

from moneystate.engine.avro import HEADER_BYTES, MAGIC
from moneystate.engine.processor import Rejected
from moneystate.records.schema_set import ReadBody, SchemaSet


class AnyVersion:
    """The topic format `avro` where there is more than one version. A `Convert`."""

    def __init__(self, schemas: SchemaSet) -> None:
        self._schemas = schemas
        self._readers: dict[bytes, ReadBody] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_readers": {}}  # closures

    def __call__(self, value: bytes | None) -> bytes:
        """The value as the current version of its type. Raises Rejected."""
        if value is None:
            raise Rejected("null_value")
        fingerprint = value[len(MAGIC) : HEADER_BYTES]
        if not value.startswith(MAGIC) or fingerprint not in self._schemas.others:
            return value
        read = self._readers.get(fingerprint)
        if read is None:
            read = self._schemas.reader_of(self._schemas.others[fingerprint], fingerprint.hex())
            self._readers[fingerprint] = read
        return read(value, HEADER_BYTES)
