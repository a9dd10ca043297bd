"""Fills a target's tables from the whole topic, while readers see the old rows until the end (rule 7 in docs/apply.md).

The steps, and what a crash after each leaves:

1. *staged*: a temporary table has what the log says. It goes with the session, so nothing is left.
2. *locked*: the positions. Nobody else applies until the end.
3. *completed*: what was applied meanwhile is staged, too. As 2.
4. *merged*: rows that differ are changed, rows that are not in the log are deleted. The transaction is open: as 2.
5. *taken over*: the target has the new positions. As 2.
6. *committed*: readers see all of it. Views, grants and columns that are not configured are as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import psycopg

from moneystate.apply import sql
from moneystate.apply.bookkeeping import Bookkeeping, StoredVersion
from moneystate.apply.changelog import Options, VersionReader
from moneystate.apply.chunks import Partition, cut
from moneystate.apply.config import Mode, Settings
from moneystate.apply.database import BEGIN, READ_COMMITTED, Connected, Tx, judge, said
from moneystate.apply.outbox import Outgoing, Stream
from moneystate.apply.records import Read, Record, Refused, read
from moneystate.apply.row_changes import RowChange, merged
from moneystate.apply.rows_target import Rows
from moneystate.apply.sqlstates import Verdict
from moneystate.apply.staging import Staging
from moneystate.apply.state_target import State
from moneystate.apply.topic_checks import Logs, logs_of
from moneystate.apply.versions import Whole
from moneystate.errors import RetentionError, SetupError
from moneystate.kafka.client import admin_client, letter_of
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.ranges import Range, RangeReader

Progress = Callable[[int], None]

# The merge of a large table takes its time; nobody waits for it but those who apply to the same table.
LONG: Final = (
    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = '5min'; "
    "SET LOCAL lock_timeout = '60s'"
)


class Rebuilding:
    """Rebuilds targets over one connection. `progress`: gets the number of records that were read."""

    def __init__(self, settings: Settings, books: Bookkeeping, connection: Connected, progress: Progress) -> None:
        self._settings = settings
        self._books = books
        self._connection = connection
        self._progress = progress
        self._admin = admin_client(settings.bootstrap_servers, dict(settings.kafka))
        self._read = 0

    def rows(self, target: Rows) -> None:
        """Raises SetupError for a topic that does not have all rows."""
        if target.target.mode is Mode.append:
            raise SetupError(
                f"{target.where}: expected a target with mode upsert, found append: its rows have no key to compare.",
                "empty the table, and delete the target's rows of moneystate_positions.",
            )
        target.prepare(self._connection)
        logs = logs_of(self._admin, target.topics)
        _check_complete(target, logs)
        for statement in sql.stage_whole(target.target.table):
            self._connection.execute(statement)
        refused: list[Read] = []
        ends = dict(logs.ends)
        self._stage(target, {p: (logs.starts[p], ends[p]) for p in ends}, refused)
        failpoint("staged", 0)
        with self._transaction() as tx:
            before = self._books.lock_all(tx, target.name)
            failpoint("locked", 0)
            behind = {p: (ends[p], pos) for p, pos in before.items() if pos > ends.get(p, pos)}
            self._stage(target, behind, refused, Staging(tx))
            ends |= {p: end for p, (_, end) in behind.items()}
            failpoint("completed", 0)
            columns = [bound.column for bound in target.plan.columns]
            key = [c.name for c in target.plan.key_columns]
            for statement in sql.merge_whole(target.target.table, columns, key):
                tx.execute(statement)
            failpoint("merged", 0)
            self._letters(tx, target, refused, before, logs)
            self._books.replace(tx, target.name, ends, logs.ids)
            failpoint("taken over", 0)
            tx.execute("COMMIT")
        failpoint("committed", 0)

    def state(self, target: State) -> None:
        """Raises SetupError if the changelog has no whole version."""
        s = self._settings
        target.prepare(self._connection)
        options = Options(s.bootstrap_servers, s.topic_prefix, dict(s.kafka))
        reader = VersionReader(target.name, options, target.model, None)
        try:
            whole = self._whole(reader, {})
            failpoint("staged", 0)
            with self._transaction() as tx:
                before = self._books.lock_all(tx, target.name)
                failpoint("locked", 0)
                whole = self._whole(reader, {p.number: pos for p, pos in before.items()}, whole)
                failpoint("completed", 0)
                staging = Staging(tx)
                for table in target.tables:
                    for statement in sql.stage_whole(table.table):
                        tx.execute(statement)
                    target.put(staging, whole, only=table, into=sql.REBUILT)
                    for statement in sql.merge_whole(table.table, table.columns, table.key):
                        tx.execute(statement)
                failpoint("merged", 0)
                topic = target.topics[0]
                positions = {Partition(topic, p): pos for p, pos in whole.positions.items()}
                self._books.replace(tx, target.name, positions, {topic: reader.log.topic_id})
                version = StoredVersion(whole.version.epoch, whole.version.batch, reader.epochs, reader.groups)
                self._books.put_version(tx, target.name, version, whole.watermark_ms)
                failpoint("taken over", 0)
                tx.execute("COMMIT")
            failpoint("committed", 0)
        finally:
            reader.close()

    def _transaction(self) -> _Transaction:
        return _Transaction(self._connection)

    def _whole(self, reader: VersionReader, least: Mapping[int, int], known: Whole | None = None) -> Whole:
        """A version that is not before the positions `least`."""
        whole = known
        while whole is None or any(whole.positions.get(p, 0) < pos for p, pos in least.items()):
            newer = reader.read(lambda: True)
            if newer is not None:
                whole = newer
                self._progress(len(whole.changes))
            elif whole is None and not reader.groups and reader.is_at_end():
                raise SetupError("the changelog: expected a version, found none.", "start the service's job first.")
        return whole

    def _stage(
        self,
        target: Rows,
        ranges: Mapping[Partition, tuple[int, int]],
        refused: list[Read],
        staging: Staging | None = None,
    ) -> None:
        """`staging`: of the transaction that is open; None: each part has its own."""
        s = self._settings
        reader = RangeReader(s.bootstrap_servers, dict(s.kafka), f"{s.group(target.name)}-rebuild", len(ranges) or 1)
        try:
            wanted = [Range(*p, start, end) for p, (start, end) in sorted(ranges.items())]
            records = (_record(message) for message in reader.read(wanted))
            for some in cut(records):
                reads = read(some, target.read)
                refused += [one for one in reads if one.refused is not None]
                self._put(target, [one for one in reads if one.content is not None], refused, staging)
                self._read += len(some)
                self._progress(self._read)
        finally:
            reader.consumer.close()

    def _put(self, target: Rows, reads: list[Read], refused: list[Read], staging: Staging | None) -> None:
        """Puts rows into the copy. If the database refuses one, each alone."""
        try:
            with self._connection.transaction(), self._connection.cursor() as tx:
                _apply(staging or Staging(tx), target, (one.content for one in reads))
        except psycopg.Error as e:
            if judge(e) is not Verdict.data:
                raise
            if len(reads) == 1:
                refused.append(Read(reads[0].record, refused=Refused("database", said(e))))
                return
            for one in reads:
                self._put(target, [one], refused, staging)

    def _letters(
        self, tx: Tx, target: Rows, refused: Iterable[Read], before: Mapping[Partition, int], logs: Logs
    ) -> None:
        """Dead letters of records that nobody has applied before: those that follow the old positions."""
        outgoing = Outgoing()
        for one in sorted(refused, key=lambda r: (r.record.partition, r.record.offset)):
            record, partition = one.record, Partition(one.record.topic, one.record.partition)
            if record.offset >= before.get(partition, 0) and one.refused is not None:
                stream = Stream(target.name, record.topic, logs.ids[record.topic], record.partition)
                outgoing.dead_letter(stream, record, one.refused, self._settings.dead_letters_topic)
        if outgoing.rows:
            self._books.put(tx, outgoing.rows)


class _Transaction:
    """A transaction that may take long. It is rolled back unless it was committed."""

    def __init__(self, connection: Connected) -> None:
        self._connection = connection

    def __enter__(self) -> Tx:
        self._connection.execute(BEGIN.format(level=READ_COMMITTED))
        self._connection.execute(LONG)
        self._tx = self._connection.cursor()
        return self._tx

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._tx.close()
        if kind is not None and not self._connection.closed:
            self._connection.rollback()


def _apply(staging: Staging, target: Rows, changes: Iterable[RowChange]) -> None:
    wanted = merged(changes)
    columns = [bound.column for bound in target.plan.columns]
    key = target.plan.key_columns
    if wanted.deletes:
        staging.run(sql.delete(sql.REBUILT, key), wanted.deletes)
    for unchanged in {put.unchanged for put in wanted.puts}:
        mine = [c for n, c in enumerate(columns) if n not in unchanged]
        lines = [
            [text for n, text in enumerate(put.texts) if n not in unchanged]
            for put in wanted.puts
            if put.unchanged == unchanged
        ]
        staging.run(sql.upsert(sql.REBUILT, mine, [c.name for c in key]), lines)


def _record(message: object) -> Record:
    letter = letter_of(message)
    return Record(
        letter.topic, letter.partition, letter.offset, letter.key, letter.value, letter.timestamp_ms, letter.headers
    )


def _check_complete(target: Rows, logs: Logs) -> None:
    """Raises RetentionError if records of rows that are still there may have been deleted by their age."""
    cut_off = [p for p, start in logs.starts.items() if start > 0 and p.topic not in logs.left_s]
    if cut_off:
        raise RetentionError(
            f"{target.where}: expected all records of {cut_off[0].topic}, but the log begins at "
            f"{logs.starts[cut_off[0]]}: rows of deleted records would be deleted.",
            "rebuild from a compacted topic, or with retention.ms=-1.",
        )
