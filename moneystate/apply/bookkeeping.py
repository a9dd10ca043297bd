"""The tables of the positions, the outbox and the versions, and their statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from moneystate.apply.chunks import Partition
from moneystate.apply.database import Connected, Tx
from moneystate.apply.outbox import Number, OutboxRow, Stream
from moneystate.apply.sql import quoted_table
from moneystate.apply.time_values import END_MS, FIRST_MS

POSITIONS: Final = "moneystate_positions"
OUTBOX: Final = "moneystate_outbox"
VERSIONS: Final = "moneystate_versions"
RELAY_ROWS: Final = 1_000  # of a Kafka transaction


class StoredVersion(NamedTuple):
    """A version of a service's state, as the database has it."""

    epoch: str
    batch: int
    epochs: Sequence[str]  # all that have been seen, in order
    groups: int  # key groups of the job


class Bookkeeping:
    """The statements of one application."""

    def __init__(self, schema: str, application: str) -> None:
        self.application = application
        self.positions = quoted_table((schema, POSITIONS))
        self.outbox = quoted_table((schema, OUTBOX))
        self.versions = quoted_table((schema, VERSIONS))

    def ddl(self) -> list[str]:
        return [
            f"CREATE TABLE IF NOT EXISTS {self.positions} (\n"
            "    application text, target text, topic text, partition integer,\n"
            "    next_offset bigint NOT NULL, topic_id text NOT NULL,\n"
            "    read_to_end_at timestamptz NOT NULL DEFAULT now(),\n"
            "    stopped text,\n"
            "    PRIMARY KEY (application, target, topic, partition)\n);",
            # rows are deleted soon after they are inserted, which autovacuum's defaults do not expect
            f"CREATE TABLE IF NOT EXISTS {self.outbox} (\n"
            "    application text, target text, topic text, topic_id text, partition integer,\n"
            "    cause_offset bigint, k integer,\n"
            "    destination text NOT NULL, key bytea, value bytea, headers bytea[] NOT NULL,\n"
            "    PRIMARY KEY (application, target, topic, topic_id, partition, cause_offset, k)\n"
            ") WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);",
            f"CREATE TABLE IF NOT EXISTS {self.versions} (\n"
            "    application text, target text, epoch text NOT NULL, batch bigint NOT NULL,\n"
            "    epochs text[] NOT NULL, groups integer NOT NULL,\n"
            "    watermark timestamptz, watermark_ms bigint NOT NULL,\n"
            "    committed_at timestamptz NOT NULL DEFAULT now(),\n"
            "    PRIMARY KEY (application, target)\n);",
        ]

    def exist(self, connection: Connected) -> bool:
        """Whether the tables are there."""
        names = [self.positions, self.outbox, self.versions]
        rows = connection.execute("SELECT to_regclass(n) FROM unnest(%s::text[]) AS n", (names,)).fetchall()
        return all(name is not None for (name,) in rows)

    # positions

    def stored(self, connection: Connected, target: str) -> dict[Partition, tuple[int, str]]:
        """Next offset and topic id of each position."""
        rows = self._positions_of(connection, target, "next_offset, topic_id")
        return {Partition(t, p): (offset, topic_id) for t, p, offset, topic_id in rows}

    def stops(self, connection: Connected, target: str) -> dict[Partition, str]:
        """Returns why partitions cannot go on."""
        rows = self._positions_of(connection, target, "stopped")
        return {Partition(t, p): why for t, p, why in rows if why is not None}

    def left_s(self, connection: Connected, target: str) -> dict[Partition, float]:
        """Returns how long ago each partition was last read to its end, in seconds."""
        rows = self._positions_of(connection, target, "extract(epoch FROM now() - read_to_end_at)::float8")
        return {Partition(t, p): seconds for t, p, seconds in rows}

    def _positions_of(self, connection: Connected, target: str, columns: str) -> list[Any]:
        """Topic, partition and these columns of each position."""
        return connection.execute(
            f"SELECT topic, partition, {columns} FROM {self.positions} WHERE application = %s AND target = %s",
            (self.application, target),
        ).fetchall()

    def insert(self, connection: Connected, target: str, begins: Mapping[Partition, tuple[int, str]]) -> None:
        """Positions that are not there yet. `begins`: offset and topic id."""
        for p, (offset, topic_id) in sorted(begins.items()):
            connection.execute(
                f"INSERT INTO {self.positions} (application, target, topic, partition, next_offset, topic_id) "
                "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (self.application, target, p.topic, p.number, offset, topic_id),
            )

    def lock(self, tx: Tx, target: str, partitions: Sequence[Partition]) -> tuple[dict[Partition, int], Any]:
        """The positions that can be locked now, in order, and the time of the transaction. While another instance
        holds one, the others go on."""
        rows = tx.execute(
            f"SELECT topic, partition, next_offset, now() FROM {self.positions} WHERE application = %s AND target = %s "
            "AND (topic, partition) IN (SELECT * FROM unnest(%s::text[], %s::integer[])) "
            "ORDER BY topic, partition FOR UPDATE SKIP LOCKED",
            (self.application, target, [p.topic for p in partitions], [p.number for p in partitions]),
        ).fetchall()
        return {Partition(t, p): offset for t, p, offset, _ in rows}, rows[0][3] if rows else None

    def move(self, tx: Tx, target: str, ends: Mapping[Partition, int], begun: Any) -> int:
        """Moves the positions, and returns how many. `begun`: the time of the transaction that locked them; in another
        transaction none is moved."""
        partitions = sorted(ends)
        done = tx.execute(
            f"UPDATE {self.positions} AS p SET next_offset = n.next_offset, stopped = NULL "
            "FROM unnest(%s::text[], %s::integer[], %s::bigint[]) AS n(topic, partition, next_offset) "
            "WHERE p.application = %s AND p.target = %s AND p.topic = n.topic AND p.partition = n.partition "
            "AND now() = %s",
            (
                [p.topic for p in partitions], [p.number for p in partitions], [ends[p] for p in partitions],
                self.application, target, begun,
            ),
        )  # fmt: skip
        return done.rowcount

    def set(self, connection: Connected, target: str, partition: Partition, offset: int) -> None:
        connection.execute(
            f"UPDATE {self.positions} SET next_offset = %s WHERE application = %s AND target = %s AND topic = %s "
            "AND partition = %s",
            (offset, self.application, target, partition.topic, partition.number),
        )

    def lock_all(self, tx: Tx, target: str) -> dict[Partition, int]:
        """Locks all positions of a target, in order. Another process waits, or leaves them for later."""
        rows = tx.execute(
            f"SELECT topic, partition, next_offset FROM {self.positions} WHERE application = %s AND target = %s "
            "ORDER BY topic, partition FOR UPDATE",
            (self.application, target),
        ).fetchall()
        return {Partition(t, p): offset for t, p, offset in rows}

    def replace(self, tx: Tx, target: str, positions: Mapping[Partition, int], ids: Mapping[str, str]) -> None:
        """Takes over new positions, perhaps of a topic that was made again."""
        tx.execute(f"DELETE FROM {self.positions} WHERE application = %s AND target = %s", (self.application, target))
        self.insert(tx.connection, target, {p: (offset, ids[p.topic]) for p, offset in positions.items()})

    def note_end(self, connection: Connected, target: str, begins: Mapping[Partition, int]) -> None:
        """Notes that everything up to these positions has been read."""
        for p, offset in sorted(begins.items()):
            connection.execute(
                f"UPDATE {self.positions} SET read_to_end_at = now() WHERE application = %s AND target = %s "
                "AND topic = %s AND partition = %s AND next_offset = %s",
                (self.application, target, p.topic, p.number, offset),
            )

    def note_stop(self, connection: Connected, target: str, partition: Partition, why: str) -> None:
        connection.execute(
            f"UPDATE {self.positions} SET stopped = %s WHERE application = %s AND target = %s AND topic = %s "
            "AND partition = %s",
            (why, self.application, target, partition.topic, partition.number),
        )

    # versions

    def version(self, connection: Connected, target: str) -> StoredVersion | None:
        """The version that the tables of a state have; None: they have none."""
        row = connection.execute(
            f"SELECT epoch, batch, epochs, groups FROM {self.versions} WHERE application = %s AND target = %s",
            (self.application, target),
        ).fetchone()
        return None if row is None else StoredVersion(*row)

    def all_versions(self, connection: Connected) -> list[dict[str, Any]]:
        """The versions that the tables of states have."""
        rows = connection.execute(
            "SELECT target, epoch, batch, watermark_ms, extract(epoch FROM committed_at)::float8 "
            f"FROM {self.versions} WHERE application = %s ORDER BY target",
            (self.application,),
        ).fetchall()
        names = ("target", "epoch", "batch", "watermark_ms", "committed_at_s")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def put_version(self, tx: Tx, target: str, version: StoredVersion, watermark_ms: int) -> None:
        shown = watermark_ms if FIRST_MS <= watermark_ms < END_MS else None
        tx.execute(
            f"INSERT INTO {self.versions} AS v "
            "(application, target, epoch, batch, epochs, groups, watermark, watermark_ms, committed_at) "
            "VALUES (%s, %s, %s, %s, %s, %s, to_timestamp(%s::float8 / 1000), %s, now()) "
            "ON CONFLICT (application, target) DO UPDATE SET epoch = EXCLUDED.epoch, batch = EXCLUDED.batch, "
            "epochs = EXCLUDED.epochs, groups = EXCLUDED.groups, watermark = EXCLUDED.watermark, "
            "watermark_ms = EXCLUDED.watermark_ms, committed_at = EXCLUDED.committed_at",
            (self.application, target, version.epoch, version.batch, list(version.epochs), version.groups, shown,
             watermark_ms),
        )  # fmt: skip

    # outbox

    def put(self, tx: Tx, rows: Iterable[OutboxRow]) -> None:
        columns = "application, target, topic, topic_id, partition, cause_offset, k, destination, key, value, headers"
        with tx.copy(f"COPY {self.outbox} ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(
                ["text", "text", "text", "text", "int4", "int8", "int4", "text", "bytea", "bytea", "bytea[]"]
            )
            for row in rows:
                headers = [part for name, content in row.headers for part in (name.encode(), content)]
                copy.write_row(
                    [self.application, *row.stream[:3], row.stream.partition, *row.number, row.destination, row.key,
                     row.value, headers]
                )  # fmt: skip

    def waiting(self, connection: Connected) -> list[OutboxRow]:
        """The first rows, in their order within each stream."""
        rows = connection.execute(
            "SELECT target, topic, topic_id, partition, cause_offset, k, destination, key, value, headers "
            f"FROM {self.outbox} WHERE application = %s "
            f"ORDER BY application, target, topic, topic_id, partition, cause_offset, k LIMIT {RELAY_ROWS}",
            (self.application,),
            binary=True,
        ).fetchall()
        return [
            OutboxRow(Stream(t, topic, id, p), Number(offset, k), to, key, value, _headers(parts))
            for t, topic, id, p, offset, k, to, key, value, parts in rows
        ]

    def delete(self, connection: Connected, rows: Sequence[OutboxRow]) -> None:
        streams = [row.stream for row in rows]
        connection.execute(
            f"DELETE FROM {self.outbox} AS o USING unnest(%s::text[], %s::text[], %s::text[], %s::integer[], "
            "%s::bigint[], %s::integer[]) AS d(target, topic, topic_id, partition, cause_offset, k) "
            "WHERE o.application = %s AND (o.target, o.topic, o.topic_id, o.partition, o.cause_offset, o.k) = "
            "(d.target, d.topic, d.topic_id, d.partition, d.cause_offset, d.k)",
            (
                [s.target for s in streams], [s.topic for s in streams], [s.topic_id for s in streams],
                [s.partition for s in streams], [r.number.offset for r in rows], [r.number.k for r in rows],
                self.application,
            ),
        )  # fmt: skip

    def count(self, connection: Connected, most: int) -> int:
        """The number of rows that wait, up to `most`."""
        row = connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {self.outbox} WHERE application = %s LIMIT %s) AS few",
            (self.application, most),
        ).fetchone()
        assert row is not None
        return int(row[0])


def _headers(parts: Sequence[bytes | None]) -> list[tuple[str, bytes | None]]:
    return [((parts[n] or b"").decode(), parts[n + 1]) for n in range(0, len(parts), 2)]
