"""Reads over a service's replica. Changes and differences are listed by entry, because one key may have very
many.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, Final

from moneystate.engine import avro
from moneystate.replica import range_scan, rows
from moneystate.replica.model import EventPlace, Header, Malformed, Page, Version
from moneystate.replica.reader import FEW, VERSIONS_PER_SCAN, FollowedReader, Reader
from moneystate.replica.record import BASE, Revision, read_revision
from moneystate.replica.service_view import Item, ServiceSnapshot, item_place
from moneystate.replica.snapshot import mark_of, page_of
from moneystate.runtime import layout
from moneystate.runtime.cells import RecordKind, decode_entry

COMPARED: Final = 500  # entries that one call compares at two versions: about 10 ms

Row = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """An entry at two versions."""

    before: Item
    after: Item


@dataclass(frozen=True, slots=True)
class ItemChanges:
    """Holds what one version changed, entry by entry."""

    header: Header
    items: tuple[Item, ...]
    mark: bytes | None  # where to continue with this version; None: that was all


@dataclass(frozen=True, slots=True)
class Step:
    """A change of an entry."""

    header: Header | None  # of that version; None: it is older than those that are kept
    before_ms: int | None  # the previous version's watermark: events from then on made the change
    record: Any  # None: there was no entry


@dataclass(frozen=True, slots=True)
class SetTimer:
    """A timer that is set."""

    name: str
    id: bytes
    due_ms: int
    source: EventPlace  # the event that set it


class ServiceReads(Reader[ServiceSnapshot]):
    # Changes

    def item_changes(self, after: Version, owner: bytes | None, limit: int, mark: bytes | None) -> ItemChanges:
        """The changes of the first version after `after` that has any, at most `limit` entries. `owner`: only of this
        key. With the `mark` of the previous call: the rest of that version's changes. If nothing changed, `items` is
        empty and the header is that of the newest version, which may be `after` itself. Raises Pruned, Future,
        Malformed."""
        start, newest = self._find(after), self._newest()
        if owner is not None:
            return self._changes_of_key(owner, start, newest, limit, mark)
        first, last = rows.CHANGE + rows.long(start.number + 1), rows.CHANGE + rows.long(newest.number + 1)
        return self._of_first_version(first, last, newest, limit, mark)

    def _of_first_version(
        self, first: bytes, last: bytes, end: Revision, limit: int, mark: bytes | None
    ) -> ItemChanges:
        """`end`: the version to return if nothing changed."""
        if mark is not None and not first <= mark < last:
            raise Malformed("mark: expected the one of the previous call")
        there = next(self._open().keys(mark or first, last), None)
        if there is None:
            return ItemChanges(self._header(end), (), None)
        revision = self._whole_from(rows.read_long(there, 1))
        keys = self._open().keys(there, rows.CHANGE + rows.long(revision.number + 1))
        return self._changed_items(revision, keys, limit)

    def _changed_items(self, revision: Revision, keys: Iterator[bytes], limit: int) -> ItemChanges:
        snapshot = self._snapshot(revision)
        items: dict[bytes, Item] = {}
        for examined, key in enumerate(keys):
            entry = key[1 + rows.LONG_BYTES :]
            if entry in items:
                continue
            if len(items) == limit or examined == COMPARED:  # many may be timers, which are not listed
                return ItemChanges(snapshot.header, tuple(items.values()), key)
            item = _item(snapshot, entry, snapshot.read(entry))
            if item is not None:
                items[entry] = item
        return ItemChanges(snapshot.header, tuple(items.values()), None)

    def _changes_of_key(
        self, owner: bytes, start: Revision, newest: Revision, limit: int, mark: bytes | None
    ) -> ItemChanges:
        """The changes of one key: an interval of versions at a time, however many there are."""
        if start.number == newest.number:
            return ItemChanges(self._header(newest), (), None)
        end = self._whole_from(min(start.number + VERSIONS_PER_SCAN, newest.number))
        touched = (n for n in range(start.number + 1, end.number + 1) if self._has_changed(owner, n))
        first = next(touched, None)
        if first is None:
            return ItemChanges(self._header(end), (), None)
        revision = self._whole_from(first)
        keys: list[bytes] = []
        for number in range(first, revision.number + 1):
            prefix = rows.CHANGE + rows.long(number) + rows.escape(owner)
            begin = mark if mark is not None and mark.startswith(prefix) else prefix
            if mark is None or begin == mark or prefix > mark:
                keys += islice(self._open().keys(begin, rows.after(prefix)), limit + 1)
        return self._changed_items(revision, iter(keys), limit)

    # Differences

    def differences(
        self, before: ServiceSnapshot, after: ServiceSnapshot, limit: int, mark: bytes | None
    ) -> Page[Difference]:
        """Entries that differ, in the order of their keys. The passing of time is not a difference: neither the expiry
        of an entry, nor the removal of an expired one."""
        before.check()
        after.check()
        first = mark_of(mark, rows.LATEST)[1:]
        entries = self._in_question(before, after, first)

        def read(pair: tuple[bytes, bytes | None, bytes | None]) -> Difference | None:
            return _difference(before, after, *pair)

        return page_of(((rows.LATEST + pair[0], pair) for pair in entries), read, limit, COMPARED)

    def _in_question(
        self, before: ServiceSnapshot, after: ServiceSnapshot, first: bytes
    ) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
        """Entries that may differ, with their values at both versions."""
        low, high = sorted((before.revision, after.revision))
        span = self._open().keys(rows.CHANGE + rows.long(low + 1), rows.CHANGE + rows.long(high + 1))
        changes = list(islice(span, FEW + 1))
        if len(changes) <= FEW:
            changed = sorted({key[1 + rows.LONG_BYTES :] for key in changes})
            return ((entry, before.read(entry), after.read(entry)) for entry in changed if entry >= first)
        return self._all(before, after, first)

    def _all(
        self, before: ServiceSnapshot, after: ServiceSnapshot, first: bytes
    ) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
        def of(snapshot: ServiceSnapshot, number: int) -> Iterator[tuple[bytes, int, bytes | None]]:
            for entry, stored in range_scan.entries(self._open(), snapshot.revision, b"", first, True):
                yield entry, number, stored

        for entry, both in groupby(heapq.merge(of(before, 0), of(after, 1), key=_entry_number), key=lambda r: r[0]):
            stored = {number: value for _, number, value in both}
            yield entry, stored.get(0), stored.get(1)

    # The history of an entry

    def steps(self, owner: bytes, kind: RecordKind, id: bytes, snapshot: ServiceSnapshot, limit: int) -> list[Step]:
        """The entry's changes, newest first, from a version back to the oldest one that is kept."""
        snapshot.check()
        entry, number, steps = rows.escape(owner) + kind.prefix + id, snapshot.revision, list[Step]()
        while len(steps) < limit:
            start, stored = self._interval(entry, number)
            record = snapshot.readable(kind, stored)
            if start < self.record.oldest or start <= BASE:
                if stored is not None:
                    steps.append(Step(None, None, record))
                break
            steps.append(Step(self._snapshot(self._whole_from(start)).header, self._watermark_before(start), record))
            number = start - 1
        return steps

    def _interval(self, entry: bytes, number: int) -> tuple[int, bytes | None]:
        """Returns the revision since which the entry has had its value at revision `number`, and the value. 0:
        always."""
        row = self._open().get(rows.LATEST + entry)
        if row is not None and rows.read_long(row) <= number:
            return rows.read_long(row), row[rows.LONG_BYTES :]
        for key, was in self._open().items(rows.past_key(entry, number), rows.past_key(entry, 0)):
            until, value = rows.read_past(was)
            if number < until:
                return rows.MAX_LONG - rows.read_long(key, len(key) - rows.LONG_BYTES), value
            return until, None
        return 0, None

    def _watermark_before(self, number: int) -> int | None:
        """The watermark of the version before this revision."""
        key = self._open().last_key(rows.REVISION, rows.REVISION + rows.long(number))
        revision = None if key is None else read_revision(self._open(), rows.read_long(key, 1))
        return None if revision is None else self._header(revision).watermark_ms

    def timers(self, owner: bytes, snapshot: ServiceSnapshot, limit: int) -> list[SetTimer]:
        """The timers of a key that are set."""
        snapshot.check()
        kinds = {plan.kind.prefix: plan.kind for plan in snapshot.plan.timers.values()}
        timers: list[SetTimer] = []
        for entry, stored in islice(snapshot.scan(rows.escape(owner) + layout.TIMER), limit):
            _, name, id, prefix = item_place(entry)
            if prefix in kinds:
                try:
                    due, set_at, topic, partition, offset = decode_entry(kinds[prefix], stored, owner, id).value
                except avro.Malformed:
                    continue
                source = EventPlace(snapshot.plan.topics.get(topic, str(topic)), partition, offset, set_at)
                timers.append(SetTimer(name, id, due, source))
        return timers


class FollowedServiceReads(ServiceReads, FollowedReader[ServiceSnapshot]):
    """Reads the files of a follower in another process."""


def _item(snapshot: ServiceSnapshot, entry: bytes, stored: bytes | None) -> Item | None:
    """None: the entry is neither a value nor an entry of a map."""
    owner, name, id, prefix = item_place(entry)
    kind = snapshot.plan.by_prefix.get(prefix)
    return Item(name, owner, id, snapshot.readable(kind, stored)) if isinstance(kind, RecordKind) else None


def _difference(
    before: ServiceSnapshot, after: ServiceSnapshot, entry: bytes, was: bytes | None, now: bytes | None
) -> Difference | None:
    if was == now:
        return None
    old, new = _item(before, entry, was), _item(after, entry, now)
    if old is None or new is None or old.record == new.record:
        return None
    is_forward = before.revision <= after.revision
    late, at_last = (after, (now, was)) if is_forward else (before, (was, now))
    last = _item(late, entry, next((stored for stored in at_last if stored is not None), None))
    has_expired = last is not None and last.record is None
    return None if has_expired else Difference(old, new)


def _entry_number(row: tuple[bytes, int, bytes | None]) -> tuple[bytes, int]:
    return row[:2]
