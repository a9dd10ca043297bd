"""Writes the replica's rows: versions of entries, the index, history.

Three modules do the work: the first load (`moneystate.replica.loading`), the changes after it
(`moneystate.replica.applying`), and the publication of versions (`moneystate.replica.publishing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rocksdict import WriteBatch

from moneystate.engine.avro import Malformed
from moneystate.log import get_log
from moneystate.replica import rows
from moneystate.replica.erasing import Erasure
from moneystate.replica.files import Db, Rebuild
from moneystate.replica.publishing import Publisher
from moneystate.replica.record import ROW, Record, read_record, read_rules, write_layout
from moneystate.runtime.replica_model import ReplicaModel, Unindexed

log = get_log(__name__)


class Store:
    def __init__(self, db: Db, model: ReplicaModel) -> None:
        self.db = db
        self.model = model
        self.wrote: Callable[[], None] = lambda: None  # called after each write, to notify readers at once
        self.record = read_record(db) or Record()
        self.rules = read_rules(db)  # of the run whose entries are indexed; None: not known
        self.indexing = model if self.rules is None else model.as_run(self.rules)
        self.committed = 0  # rows
        self.publisher = Publisher(db, self.record)
        self.reported: set[str] = set()  # kinds of records that cannot be used and were logged
        self.erasure = Erasure(db, self.index_keys)
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

    def index_as(self, rules: Mapping[str, Any]) -> None:
        """Sets, for empty files, the rules of the run whose entries are to be indexed."""
        self.rules, self.indexing = rules, self.model.as_run(rules)
        write_layout(self.db, self.indexing.layout, rules)

    def check_rules(self, rules: Mapping[str, Any]) -> None:
        """Raises Rebuild if a run with these rules has other indices."""
        if rules == self.rules:
            return
        if self.model.as_run(rules).layout != self.indexing.layout:
            raise Rebuild("the configuration has changed, on which the service's indices depend")
        self.rules = rules

    def index_keys(self, owner: bytes, kind: bytes, rest: bytes, value: bytes, is_new: bool = False) -> set[bytes]:
        """The index keys of an entry, as far as it can be indexed. `is_new`: otherwise it is not counted again."""
        try:
            return self.indexing.index_keys(owner, kind, rest, value)
        except Unindexed as e:
            keys, names = e.keys, e.indices
        except Exception:  # an entry that is damaged, or a function of the service that fails
            keys, names = set(), ["any index"]
        if is_new:
            for name in names:
                self.note_unusable(f"not in {name}", "the index cannot have an entry; queries by it do not find it")
        return keys

    def note_unusable(self, kind: str, problem: str) -> None:
        """Counts a record that cannot be used. The first one of each kind is logged, without its key and value."""
        counts = self.record.entries.setdefault(kind, {})
        counts["0"] = counts.get("0", 0) + 1
        if kind not in self.reported:
            self.reported.add(kind)
            log.warning(f"the replica goes on without it, and counts it as {kind!r}: {problem}")

    def proof_of(self, owner: bytes) -> bytes | None:
        """The proof that the owner was forgotten, encoded."""
        if not self.model.proof:
            return None
        row = self.db.get(rows.LATEST + rows.escape(owner) + self.model.proof)
        return None if row is None else row[rows.LONG_BYTES :]

    def count(self, value: bytes | None, by: int) -> None:
        """Counts one entry more (1) or less (-1) for the value's schema. None counts nothing."""
        if value is not None:
            try:
                kind, version = self.model.schema(value)
            except Malformed:
                kind, version = "unknown", 0
            counts = self.record.entries.setdefault(kind, {})
            counts[str(version)] = counts.get(str(version), 0) + by
