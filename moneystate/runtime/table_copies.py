"""A process's copies of its tables: all rows, for steps of any key.

A copy is a function of the topic's log: of its records up to the offsets at which the batch ends. A process that begins
reads the log from its beginning, any other goes on where it was. So nothing of a copy is in the checkpoint.

A step at t gets what holds at t, however much further the copy has read. The versions of a row that a later one has
replaced are there until the watermark has passed the time of that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moneystate.api.table import TableKey
from moneystate.api.table_versions import insert, since
from moneystate.api.tables import BEGINNING_MS, TableIndex, valid_from
from moneystate.api.truncations import TRUNCATED, Truncation, is_gone, still_needed
from moneystate.engine.avro import HEADER_BYTES
from moneystate.engine.block import TableEnd
from moneystate.engine.deadletter import Letter
from moneystate.engine.items import MAX_EVENT_TIME, NO_TIME
from moneystate.engine.order import Partition, RangeOrder
from moneystate.engine.processor import Convert, Rejected
from moneystate.errors import MoneystateError, StepError
from moneystate.records.shapes import is_immutable
from moneystate.runtime.decoded_rows import DecodedRows
from moneystate.runtime.json_topic import AVRO
from moneystate.runtime.table_index import IndexKeys
from moneystate.runtime.table_plan import TablePlan
from moneystate.runtime.table_reader import Row, TableReader
from moneystate.runtime.table_rows import text_of

if TYPE_CHECKING:
    from moneystate.runtime.decoder import ServiceDecoder

HEAD: Final = struct.Struct(">qqq")  # written, valid_from, position: before the body of a row with one version

# code, partition in the order, first offset, end
TableRange = tuple[int, int, int, int]
# The records of ranges: each partition's in the order of their offsets. With the partition in the order.
Feed = Callable[[Sequence[TableRange]], Iterable[tuple[Partition, Letter]]]


class CopiedVersion(NamedTuple):
    """`moneystate.api.table_versions.AnyVersion`."""

    written: int
    valid_from: int
    row: bytes | None  # the body of the `<Record>Change`
    position: int  # as `moneystate.api.table_records` has it


class TableCopy:
    """The rows of one table."""

    def __init__(self, planned: TablePlan) -> None:
        self.planned = planned
        self.history_ms = planned.table.history_ms
        # Maps a key to head and body of a row with one version, which is the most common, else to its versions.
        self.rows: dict[bytes, bytes | list[CopiedVersion]] = {}
        self.truncations: list[Truncation] = []  # those that can make a difference
        self.swept: list[Truncation] = []  # of them, those whose rows have been removed
        self.to_prune: list[tuple[int, bytes]] = []  # a heap: when a version of a key can go
        self.read = planned.changes.read_own_body
        self.indices = {index: IndexKeys(index) for index in planned.table.indices}
        record = planned.codec.record
        self.decoded = DecodedRows(self._row_at, len(record.fields)) if is_immutable(record) else None

    def put(self, key: bytes, version: CopiedVersion) -> None:
        """Adds a version, which has a greater place than all others of its key."""
        content = self.rows.get(key)
        if version.row is not None:
            for of_index in self.indices.values():
                of_index.add(key, self._row(version.row))
        if content is None and version.row is not None:
            self.rows[key] = _packed(version, version.row)
            return
        if content is None and not self.history_ms:
            return  # a row that was never there is removed
        versions = [_unpacked(content)] if isinstance(content, bytes) else content or []
        insert(versions, version)
        self.rows[key] = versions
        heappush(self.to_prune, (since(version) + self.history_ms, key))

    def truncate(self, truncation: Truncation) -> None:
        self.truncations.append(truncation)

    def prune(self, watermark: int) -> None:
        """Forgets the versions that no step from `watermark` on can get."""
        if self.truncations:
            self._sweep(watermark - self.history_ms)
        waiting = self.to_prune
        while waiting and waiting[0][0] <= watermark:
            _, key = heappop(waiting)
            content = self.rows.get(key)
            if isinstance(content, list):
                rest = self.planned.table.needed(content, watermark)
                self._keep(key, rest)
                for of_index in self.indices.values():
                    of_index.keep(key, self._rows_of(content), self._rows_of(rest))

    def _sweep(self, horizon_ms: int) -> None:
        """Removes the versions that truncations have removed for all steps from `horizon_ms` on."""
        held = [t for t in self.truncations if t.written <= horizon_ms and t not in self.swept]
        if not held:
            return
        for key, content in list(self.rows.items()):
            versions = [_unpacked(content)] if isinstance(content, bytes) else content
            rest = [version for version in versions if not is_gone(version, held, horizon_ms)]
            if len(rest) < len(versions):
                self._keep(key, rest)
                for of_index in self.indices.values():
                    of_index.keep(key, self._rows_of(versions), self._rows_of(rest))
        self.truncations = still_needed(self.truncations, horizon_ms)
        self.swept = [t for t in self.truncations if t.written <= horizon_ms]

    def _keep(self, key: bytes, versions: list[CopiedVersion]) -> None:
        if not versions:
            del self.rows[key]
        elif len(versions) == 1 and versions[0].row is not None:
            self.rows[key] = _packed(versions[0], versions[0].row)
        else:
            self.rows[key] = versions

    def get(self, key: bytes, now_ms: int, at_ms: int | None) -> Any:
        """The row that a step at `now_ms` gets; None: there is none."""
        content = self.rows.get(key)
        if content is None:
            return None
        if isinstance(content, bytes):
            if at_ms is None and not self.truncations:
                written, valid, _ = HEAD.unpack_from(content)
                return self._only_row(key, content) if written <= now_ms and valid <= now_ms else None
            content = [_unpacked(content)]
        version = self.planned.row_at(content, now_ms, at_ms, self.truncations)
        return None if version is None or version.row is None else self._row(version.row)

    def find(
        self, index: TableIndex[Any, Any], by: Any, now_ms: int, at_ms: int | None
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        """Keys and rows that a step at `now_ms` gets, ordered by key."""
        of_index = self._index(index)
        return self._found(of_index, of_index.form(by), now_ms, at_ms)

    def find_any(
        self, index: TableIndex[Any, Any], values: Iterable[Any], now_ms: int, at_ms: int | None
    ) -> list[tuple[str, Any]]:  # fmt: skip
        """Returns the rows with one of the values or more, each once."""
        of_index = self._index(index)
        forms = [of_index.form(by) for by in values]
        rows_of = {form: self._found(of_index, form, now_ms, at_ms) for form in forms if form in of_index.keys}
        if len(rows_of) == 1:
            return list(*rows_of.values())
        return sorted({key: row for rows in rows_of.values() for key, row in rows}.items())

    def _index(self, index: TableIndex[Any, Any]) -> IndexKeys:
        of_index = self.indices.get(index)
        if of_index is None:
            raise StepError(f"{index!r} is not an index of {self.planned.table!r}.", "use an index of the table.")
        return of_index

    def _found(
        self, of_index: IndexKeys, value: str | bytes, now_ms: int, at_ms: int | None
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        for key, text in of_index.in_order(value):
            row = self.get(key, now_ms, at_ms)
            if row is None:
                continue
            # the index has the values of all versions: of a row with one version, its own
            if isinstance(self.rows[key], bytes) or value in of_index.values(row):
                yield text, row

    def _rows_of(self, versions: Iterable[CopiedVersion]) -> list[Any]:
        return [self._row(version.row) for version in versions if version.row is not None]

    def _only_row(self, key: bytes, content: bytes) -> Any:
        """Each step gets a row of its own, unless nobody can change it."""
        if self.decoded is None:
            return self._row_at(content, HEAD.size)
        return self.decoded.get(key, content, HEAD.size)

    def _row(self, body: bytes) -> Any:
        return self._row_at(body, 0)

    def _row_at(self, content: bytes, start: int) -> Any:
        return self.read(content, start)[0].row


def _packed(version: CopiedVersion, row: bytes) -> bytes:
    return HEAD.pack(version.written, version.valid_from, version.position) + row


def _unpacked(packed: bytes) -> CopiedVersion:
    written, valid, position = HEAD.unpack_from(packed)
    return CopiedVersion(written, valid, packed[HEAD.size :], position)


class CopyAccess:
    """`moneystate.api.table.TableAccess`, as of one step."""

    def __init__(self, copy: TableCopy, now_ms: int) -> None:
        self.copy = copy
        self.now_ms = now_ms

    def get(self, key: TableKey, at_ms: int | None) -> Any:
        self._check_history(at_ms)
        return self.copy.get(text_of(key), self.now_ms, at_ms)

    def find(self, index: TableIndex[Any, Any], by: Any, at_ms: int | None) -> Iterator[tuple[str, Any]]:
        self._check_history(at_ms)
        return self.copy.find(index, by, self.now_ms, at_ms)

    def find_any(
        self, index: TableIndex[Any, Any], values: Iterable[Any], at_ms: int | None
    ) -> list[tuple[str, Any]]:  # fmt: skip
        self._check_history(at_ms)
        return self.copy.find_any(index, values, self.now_ms, at_ms)

    def _check_history(self, at_ms: int | None) -> None:
        if at_ms is not None and not self.copy.history_ms:
            raise StepError(f"{self.copy.planned.table!r}: at= of a table without history.", "declare history_ms=.")


class TableCopies:
    """The copies of all tables of a service that are not local."""

    def __init__(
        self, decoder: ServiceDecoder, formats: Mapping[str, str], converts: Mapping[int, Convert], feed: Feed,
        max_record_bytes: int,
    ) -> None:  # fmt: skip
        """`formats` by topic, the others as for `Intake`."""
        self.decoder = decoder
        self.readers = {
            planned.code: TableReader(
                decoder, planned, formats.get(planned.table.topic, AVRO), converts.get(planned.code)
            )
            for planned in decoder.plan.tables.values()
            if not planned.table.local
        }
        self.feed = feed
        self.max_record_bytes = max_record_bytes
        self.bounds = {t.code: t.bound_ms or 0 for t in decoder.plan.input_topics() if t.table}
        self.forget()

    def forget(self) -> None:
        """The next batch reads the logs from their beginning."""
        self.copies = {code: TableCopy(reader.planned) for code, reader in self.readers.items()}
        self.positions: dict[Partition, int] = {}
        self.orders: dict[Partition, RangeOrder] = {}

    def access(self, planned: TablePlan, now_ms: int) -> CopyAccess:
        return CopyAccess(self.copies[planned.code], now_ms)

    def prune(self, watermark: int) -> None:
        if watermark != NO_TIME:
            for copy in self.copies.values():
                copy.prune(watermark)

    def advance(self, ends: Iterable[TableEnd]) -> None:
        """Brings the copies to the ends of a batch. One that is further has seen a batch that did not count."""
        mine = [end for end in ends if end.topic in self.copies]
        if any(self.positions.get((e.topic, e.partition), 0) > e.end for e in mine):
            self.forget()
        ranges = [(e.topic, e.partition, self.positions.get((e.topic, e.partition), 0), e.end) for e in mine]
        ranges = [one for one in ranges if one[2] < one[3]]
        if not ranges:
            return
        loaded = {(e.topic, e.partition): e.loaded for e in mine}
        for place, letter in self.feed(ranges):
            self._take(place, letter, loaded[place])
            self.positions[place] = letter.offset + 1
        self.positions.update({(topic, partition): end for topic, partition, _, end in ranges})

    def _take(self, place: Partition, letter: Letter, loaded: int) -> None:
        """Takes a record, unless the source makes it a dead letter (`moneystate.engine.intake`)."""
        if not 0 <= letter.timestamp_ms <= MAX_EVENT_TIME:
            return
        reader = self.readers[place[0]]
        try:
            is_row = not reader.is_platforms(letter)
            row = reader.read(letter) if is_row else None
        except Rejected:
            return
        except Exception as e:
            if (isinstance(e, MoneystateError) and not isinstance(e, StepError)) or self.decoder.rejected(e) is None:
                raise
            return
        if is_row and (row is None or 0 < self.max_record_bytes < len(row.canonical)):
            return
        is_first = letter.offset < loaded
        written = BEGINNING_MS if is_first else self._order(place).observe(letter.timestamp_ms)
        if row is not None:
            self._put(self.copies[place[0]], row, written)

    def _put(self, copy: TableCopy, row: Row, written: int) -> None:
        table = copy.planned.table
        position = row.change.position if table.has_positions else 0
        if table.has_positions and row.key == TRUNCATED:
            copy.truncate(Truncation(written, position))
            return
        body = None if row.change.row is None else row.canonical[HEADER_BYTES:]
        copy.put(row.key, CopiedVersion(written, valid_from(table, row.change.row, written), body, position))

    def _order(self, place: Partition) -> RangeOrder:
        order = self.orders.get(place)
        if order is None:
            order = self.orders[place] = RangeOrder(self.bounds[place[0]])
        return order
