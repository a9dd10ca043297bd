"""Writes the replica's rows: versions of entries, the index, history.

Three modules do the work: the first load (`moneystate.replica.loading`), the changes after it
(`moneystate.replica.applying`), and the publication of versions (`moneystate.replica.publishing`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocksdict import WriteBatch

from moneystate.ports.replica import ReplicaModel
from moneystate.replica import rows
from moneystate.replica.erasing import Erasure
from moneystate.replica.files import Db
from moneystate.replica.publishing import Publisher
from moneystate.replica.record import ROW, Record, read_record


class Store:
    def __init__(self, db: Db, model: ReplicaModel[Any]) -> None:
        self.db = db
        self.model = model
        self.wrote: Callable[[], None] = lambda: None  # called after each write, to notify readers at once
        self.record = read_record(db) or Record()
        self.committed = 0  # rows
        self.publisher = Publisher(db, self.record)
        self.erasure = Erasure(db, model)
        self.erasure.run()

    @property
    def written(self) -> int:
        """Rows written since the store was opened, with which readers must catch up."""
        return self.committed + self.erasure.written

    def close(self) -> None:
        self.erasure.wait()
        self.db.close()

    def commit(self, batch: WriteBatch, positions: dict[int, int]) -> None:
        """Writes the batch with the record. `positions`: by partition of the changelog, the offset to resume from."""
        self.record.positions.update((str(partition), offset) for partition, offset in positions.items())
        batch.put(ROW, self.record.encode())
        count = batch.len()
        self.db.write(batch)
        self.committed += count
        self.wrote()

    def forgotten_at(self, user: bytes) -> int | None:
        """Order time in ms of the last request to forget the user that was honoured."""
        if not self.model.proof:
            return None
        row = self.db.get(rows.LATEST + rows.escape(user) + self.model.proof)
        return None if row is None else self.model.forgotten_at(row[rows.LONG_BYTES :])

    def count(self, value: bytes | None, by: int) -> None:
        """Counts one entry more (1) or less (-1) for the value's schema. None counts nothing."""
        if value is not None:
            kind, version = self.model.schema(value)
            counts = self.record.entries.setdefault(kind, {})
            counts[str(version)] = counts.get(str(version), 0) + by
