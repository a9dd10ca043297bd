"""Loads a replica for the first time: the entries as of the log's end, without history."""

from __future__ import annotations

from typing import Final

from rocksdict import WriteBatch

from moneystate.engine import keys
from moneystate.engine.keygroup import key_group_of
from moneystate.replica import rows
from moneystate.replica.files import Misplaced
from moneystate.replica.log import Changelog, Message
from moneystate.replica.record import BASE
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import (
    UNUSABLE,
    End,
    EntryChange,
    UnusableRecord,
    change_of,
    key_of,
    read_end,
)

INDEX_ROWS: Final = 10_000


class Loader:
    """Writes the entries. If it ends before `finish`, the log is read from its beginning again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db
        self.record = store.record

    def add(self, partition: int, records: list[tuple[int, EntryChange]]) -> None:
        """`records`: offsets and changes."""
        batch = WriteBatch(raw_mode=True)
        prefix = rows.LOADED + partition.to_bytes(4, "big")
        for offset, change in records:
            batch.put(prefix + change.entry, rows.long(offset) + (change.value or b""))
        self.db.write(batch)

    def finish(self, ends: dict[int, tuple[int, End]], total: int, partitions: int, positions: dict[int, int]) -> None:
        """`ends`: each key group's last end-of-batch record, with its offset; `total`: key groups, 0 before any batch;
        `partitions`: number of changelog partitions over which the job spreads entries. Raises Misplaced."""
        record, publisher = self.record, self.store.publisher
        record.last = BASE
        record.groups, record.done, record.ended = total, [0] * total, [-1] * total
        record.partitions = partitions
        for group, (offset, _) in ends.items():
            if group < total:
                record.ended[group] = offset
        if ends:
            last = max((end for _, end in ends.values()), key=lambda end: end.written_at_ms)
            self.store.index_as(last.rules)
        if total:
            self._take_loaded(partitions)
        batch = WriteBatch(raw_mode=True)
        for group, end in _in_order({group: end for group, (_, end) in ends.items() if group < total}):
            record.done[group] = publisher.number_of(batch, end)
        highest = max(record.done, default=0)
        record.skipped = list(range(BASE, highest + 1 if record.half or record.holes else highest))
        record.loading = False
        publisher.advance(batch)
        batch.delete_range(rows.LOADED, rows.after(rows.LOADED))
        self.store.commit(batch, positions)
        self.store.erasure.clean(rows.LOADED)

    def _take_loaded(self, partitions: int) -> None:
        """Takes the entries that are in the partition of their key group. Other partitions may have tombstones: a job
        with another number of partitions or key groups first removes the old entries (`moneystate.kafka.publish`)."""
        batch = WriteBatch(raw_mode=True)
        half: set[int] = set()
        for key, row in self.db.items(rows.LOADED, rows.after(rows.LOADED)):
            partition, entry = int.from_bytes(key[1:5], "big"), key[5:]
            owner, kind, rest = rows.split_entry(entry)
            group = key_group_of(owner, self.record.groups)
            if group % partitions != partition:
                if len(row) > rows.LONG_BYTES:
                    raise Misplaced(
                        f"key group {group} of {self.record.groups} has an entry in partition {partition}, though with "
                        f"{partitions} partitions it belongs to {group % partitions}: partitions were added"
                    )
                continue
            if rows.read_long(row) > self.record.ended[group]:
                half.add(group)
            if len(row) > rows.LONG_BYTES:
                self.take(batch, owner, kind, rest, entry, row[rows.LONG_BYTES :])
            if batch.len() >= INDEX_ROWS:
                self.db.write(batch)
                batch = WriteBatch(raw_mode=True)
        self.db.write(batch)
        self.record.half = sorted(half)

    def take(self, batch: WriteBatch, owner: bytes, kind: bytes, rest: bytes, entry: bytes, value: bytes) -> None:
        """Adds the rows of an entry that has no past."""
        put = rows.long(BASE)
        batch.put(rows.LATEST + entry, put + value)
        for key in self.store.index_keys(owner, kind, rest, value, is_new=True):
            batch.put(rows.INDEX + key, put)
        self.store.count(value, 1)


def _in_order(ends: dict[int, End]) -> list[tuple[int, End]]:
    """Key groups' last end-of-batch records, by version: an epoch ends before the next one begins."""
    last: dict[str, int] = {}
    for end in ends.values():
        last[end.version.epoch] = max(last.get(end.version.epoch, 0), end.written_at_ms)
    return sorted(
        ends.items(), key=lambda item: (last[item[1].version.epoch], item[1].version.epoch, item[1].version.batch)
    )


class FirstLoad:
    """Loads everything up to where the log ended at its start, and a little of what is written meanwhile."""

    def __init__(self, store: Store, changelog: Changelog) -> None:
        self.store = store
        self.loader = Loader(store)
        self.changelog = changelog
        self.ends: dict[tuple[int, int], tuple[int, End]] = {}  # by partition and key group: offset and record

    def add(self, messages: list[Message], read_to: dict[int, int]) -> None:
        records: dict[int, list[tuple[int, EntryChange]]] = {}
        for message in messages:
            partition, offset = message.partition(), message.offset()
            try:
                self._add(message, partition, offset, records)
            except UnusableRecord as e:
                self.store.note_unusable(UNUSABLE, f"partition {partition}, offset {offset}: {e}")
            read_to[partition] = max(read_to[partition], offset + 1)
        for partition, some in records.items():
            self.loader.add(partition, some)

    def _add(
        self, message: Message, partition: int, offset: int, records: dict[int, list[tuple[int, EntryChange]]]
    ) -> None:
        key = key_of(message)
        if not key.startswith(keys.END):
            records.setdefault(partition, []).append((offset, change_of(key, message.value(), self.store.model)))
        elif message.value() is not None:
            self._note(partition, offset, read_end(message.value(), message.timestamp()[1], 0))

    def _note(self, partition: int, offset: int, end: End) -> None:
        self.ends.update({(partition, group): (offset, end) for group in end.groups})

    def is_done(self, read_to: dict[int, int]) -> bool:
        return all(read_to[p] >= end for p, end in self.changelog.ends.items())

    def finish(self, read_to: dict[int, int], ends: dict[int, int]) -> None:
        """`ends`: the log's current ends. Records up to there may have replaced records that the load has not seen.
        Raises Misplaced."""
        last = max((end for _, end in self.ends.values()), key=lambda e: e.written_at_ms, default=None)
        # early writers did not record the number of key groups, but every batch ends all of them
        total = 0 if last is None else last.total or max(group for _, group in self.ends) + 1
        partitions = (last and last.partitions) or len(read_to)
        record = self.store.record
        record.alive_ms = self.changelog.asked_ms
        record.holes = {str(p): end for p, end in ends.items() if end > read_to[p]}
        # other partitions have records from before the number of partitions changed
        at_home = {group: end for (p, group), end in self.ends.items() if group % partitions == p}
        self.loader.finish(at_home, total, partitions, read_to)
