"""Follows an output topic for its lineage headers, so that the server can explain outputs.

Only a record's lineage header, its id (`moneystate.ports.replica.Trace`) and its key, which is the user, are read. A
record belongs to a version if its timestamp is not after the version's: the same writer wrote both.
"""

from __future__ import annotations

from typing import Any

from rocksdict import WriteBatch

from moneystate.ports.replica import Trace
from moneystate.replica import rows
from moneystate.replica.store import Store


class Lineage:
    def __init__(self, store: Store, trace: Trace) -> None:
        self.store = store
        self.trace = trace

    def add(self, records: list[tuple[int, int, int, bytes, bytes, bytes]]) -> None:
        """`records`: partition, offset, timestamp, user, value, header."""
        batch = WriteBatch(raw_mode=True)
        positions = self.store.record.lineage_positions
        for partition, offset, timestamp, user, value, header in records:
            positions[str(partition)] = offset + 1
            id = self.trace.id_of(value)
            if id is None or self._was_before_forgetting(user, header):
                continue
            place = rows.signed(timestamp) + partition.to_bytes(4, "big") + rows.long(offset)
            row_key = rows.lineage_key(id, user)
            batch.put(row_key, place + header)
            batch.put(rows.LINEAGE_AGE + rows.signed(timestamp) + row_key[1:], b"")
            batch.put(rows.LINEAGE_USER + rows.escape(user) + rows.signed(timestamp) + id, b"")
        self.store.commit(batch, {})

    def _was_before_forgetting(self, user: bytes, header: bytes) -> bool:
        """Whether the record is from before its user was forgotten. A rebuilt replica reads such records again."""
        proof = self.store.forgotten_at(user)
        if proof is None:
            return False
        caused_ms = self.trace.event_time_ms(header)
        return caused_ms is not None and caused_ms < proof

    def header_of(self, headers: Any) -> bytes | None:
        """The lineage header of a message; None: it has none."""
        for name, value in headers or ():
            if name == self.trace.header and isinstance(value, bytes):
                return value
        return None
