"""Follows the enriched events for their lineage, so that money that was put out can be explained.

Of a record only the header `lineage` and the money's id are looked at, and its key, which is the user. A record is of a
version if its timestamp is not after the version's own: its writer wrote both.
"""

from __future__ import annotations

import json
from typing import Any

from rocksdict import WriteBatch

from moneystate.engine import avro
from moneystate.engine.avro import HEADER_BYTES, read_bytes
from moneystate.replica import rows
from moneystate.replica.decode import lineage_origins
from moneystate.replica.store import Store
from services.enrichment import fingerprints as fp

HEADER = "lineage"
CONFLUENT_BYTES = 5  # a zero and the number of the schema


def money_id(value: bytes) -> bytes | None:
    """Of a MoneyEnriched in any of its formats; None where it is not told."""
    try:
        if value.startswith(fp.MONEY_ENRICHED):
            return read_bytes(value, HEADER_BYTES)[0]
        if value[:1] == b"\x00":
            return read_bytes(value, CONFLUENT_BYTES)[0]
        return str(json.loads(value)["money"]["id"]).encode()
    except (avro.Malformed, ValueError, KeyError, TypeError):
        return None


class Lineage:
    def __init__(self, store: Store) -> None:
        self.store = store

    def add(self, records: list[tuple[int, int, int, bytes, bytes, bytes]]) -> None:
        """Partition, offset, timestamp, user, value, header."""
        batch = WriteBatch(raw_mode=True)
        positions = self.store.record.lineage_positions
        for partition, offset, timestamp, user, value, header in records:
            positions[str(partition)] = offset + 1
            id = money_id(value)
            if id is None or self._was_before_forgetting(user, header):
                continue
            place = rows.signed(timestamp) + partition.to_bytes(4, "big") + rows.long(offset)
            of = rows.lineage_key(id, user)
            batch.put(of, place + header)
            batch.put(rows.LINEAGE_AGE + rows.signed(timestamp) + of[1:], b"")
            batch.put(rows.LINEAGE_USER + rows.escape(user) + rows.signed(timestamp) + id, b"")
        self.store.commit(batch, {})

    def _was_before_forgetting(self, user: bytes, header: bytes) -> bool:
        """A rebuilt replica reads again what a request to forget has taken away."""
        proof = self.store.forgotten_at(user)
        if proof is None:
            return False
        return any(role == "money" and of.event_time_ms < proof for role, of in lineage_origins(header))


def header_of(headers: Any) -> bytes | None:
    """The lineage among a message's headers; None where there is none."""
    for name, value in headers or ():
        if name == HEADER and isinstance(value, bytes):
            return value
    return None
