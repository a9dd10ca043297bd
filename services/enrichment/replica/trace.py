"""The lineage of enriched money events (`moneystate.ports.replica.Trace`)."""

from __future__ import annotations

import json

from moneystate.engine import avro
from moneystate.engine.avro import HEADER_BYTES, read_bytes
from services.enrichment import fingerprints as fp
from services.enrichment.replica.decode import lineage_origins
from services.enrichment.topics import ENRICHED, STREAMS

CONFLUENT_BYTES = 5  # a zero and the number of the schema


class EnrichedTrace:
    topic = STREAMS[ENRICHED]
    header = "lineage"

    def id_of(self, value: bytes) -> bytes | None:
        return money_id(value)

    def event_time_ms(self, header: bytes) -> int | None:
        return next((origin.event_time_ms for role, origin in lineage_origins(header) if role == "money"), None)


def money_id(value: bytes) -> bytes | None:
    """The money id of a MoneyEnriched in any format; None: it has none."""
    try:
        if value.startswith(fp.MONEY_ENRICHED):
            return read_bytes(value, HEADER_BYTES)[0]
        if value[:1] == b"\x00":
            return read_bytes(value, CONFLUENT_BYTES)[0]
        return str(json.loads(value)["money"]["id"]).encode()
    except (avro.Malformed, ValueError, KeyError, TypeError, RecursionError):
        return None
