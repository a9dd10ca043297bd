"""Records in the Confluent format, by the schemas of a registry."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any, Final

import fastavro

from moneystate.engine.processor import Rejected
from moneystate.errors import BrokerError, MoneystateError
from moneystate.records.schema_set import SchemaSet
from moneystate.registry.client import RegistryClient
from moneystate.registry.confluent import ConfluentFormat

FRAME_BYTES: Final = 5  # a zero byte and the schema's id
TIMEOUT_S: Final = 3.0


class Registered:
    """Reads values with the schemas that they name. Calls block until the registry answers, once for each schema."""

    def __init__(self, url: str) -> None:
        """Raises ConfigError."""
        client = RegistryClient(url, attempts=1, timeout_s=TIMEOUT_S)
        self.format = ConfluentFormat(SchemaSet([]), client, id_wait_s=0.0)
        self.parsed: dict[str, Any] = {}

    def read(self, value: bytes) -> tuple[str, str]:
        """The record as JSON, and the name of its type. Raises ValueError, which says why it cannot be read."""
        try:
            text = self.format.schema_of(value)
        except Rejected as e:
            raise ValueError(e.detail or e.reason) from None
        except (BrokerError, MoneystateError) as e:
            raise ValueError(str(e)) from None
        if text not in self.parsed:
            self.parsed[text] = fastavro.parse_schema(json.loads(text))
        schema = self.parsed[text]
        body = BytesIO(value)
        body.seek(FRAME_BYTES)
        try:
            record = fastavro.schemaless_reader(body, schema, None)
        except Exception as e:  # fastavro raises many kinds for bytes that do not fit
            raise ValueError(f"the bytes do not fit the schema: {e}") from None
        name = schema["name"] if isinstance(schema, dict) and "name" in schema else "a value"
        return json.dumps(record, ensure_ascii=False, default=_plain), name


def _plain(value: Any) -> str:
    return value.hex(" ") if isinstance(value, bytes) else str(value)
