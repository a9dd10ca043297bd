"""A real table in PostgreSQL, changed by transactions that overlap, and loaded in between: after each load the topic is
what the database had committed. Only real transactions commit in another order than they write."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from moneystate.devpostgres import DevPostgres
from moneystate.tables.columns import Declared
from moneystate.tables.loading import Choices
from moneystate.tables.query import QuerySource
from tests.tables.harness import Site

WRITERS = 3
KEYS_EACH = 8
STEPS = 24
TABLE = "CREATE TABLE prices (sku text PRIMARY KEY, cents integer, changed_at timestamptz NOT NULL DEFAULT now())"


class Writer:
    """Transactions on keys of its own, so that nobody waits for a lock. Rows are known by what is committed."""

    def __init__(self, number: int, dsn: str, chance: random.Random) -> None:
        self._chance = chance
        self._connection = psycopg.connect(dsn)
        self._keys = [f"{number}-{n}" for n in range(KEYS_EACH)]
        self._rows: dict[str, int | None] = {}
        self.committed: dict[str, int | None] = {}

    def step(self) -> None:
        chance = self._chance
        there, free = list(self._rows), [key for key in self._keys if key not in self._rows]
        kind = chance.choice(["insert", "insert", "update", "update", "move", "delete", "commit", "roll back"])
        cents = chance.choice([None, *range(5)])
        if kind == "insert" and free:
            self._do("INSERT INTO prices VALUES (%s, %s)", chance.choice(free), cents)
        elif kind == "update" and there:
            self._do("UPDATE prices SET cents = %s WHERE sku = %s", cents, chance.choice(there))
        elif kind == "move" and there and free:
            self._do("UPDATE prices SET sku = %s WHERE sku = %s", chance.choice(free), chance.choice(there))
        elif kind == "delete" and there:
            self._do("DELETE FROM prices WHERE sku = %s", chance.choice(there))
        elif kind == "commit":
            self.commit()
        elif kind == "roll back":
            self._connection.rollback()
            self._rows = dict(self.committed)

    def _do(self, statement: str, *parameters: Any) -> None:
        self._connection.execute(statement, parameters)
        rows = self._connection.execute("SELECT sku, cents FROM prices WHERE sku = ANY(%s)", (self._keys,))
        self._rows = dict(rows.fetchall())

    def commit(self) -> None:
        self._connection.commit()
        self.committed = dict(self._rows)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def dsn(postgres: DevPostgres, topic_prefix: str) -> Iterator[str]:
    """A database of its own."""
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{topic_prefix}"')
        with psycopg.connect(postgres.dsn(topic_prefix), autocommit=True) as own:
            own.execute(TABLE)
        yield postgres.dsn(topic_prefix)
        connection.execute(f'DROP DATABASE "{topic_prefix}" WITH (FORCE)')


def run(site: Site, dsn: str, schedules: int, seed: int) -> None:
    (site.folder / "dsn").write_text(dsn)
    reader = site.create()
    source = QuerySource("SELECT sku, cents FROM prices", site.folder / "dsn", Declared(("sku",)))
    loader = site.loader(source, Choices(allow_deletes=True))
    chance = random.Random(seed)
    writers = [Writer(n, dsn, chance) for n in range(WRITERS)]
    loads = 0

    def check() -> None:
        expected = {key: cents for writer in writers for key, cents in writer.committed.items()}
        before, written = reader.rows.copy(), reader.written
        counts = loader.load().counts
        assert {key: row["cents"] for key, row in reader.read().items()} == expected
        changes = sum(before.get(key) != row for key, row in reader.rows.items()), len(before.keys() - expected.keys())
        assert (counts.rows, counts.changed, counts.deleted) == (len(expected), *changes)
        assert reader.written - written == sum(changes)

    for _ in range(schedules):
        for _ in range(STEPS):
            chance.choice(writers).step()
            if chance.random() < 0.06:
                check()
                loads += 1
        for writer in chance.sample(writers, WRITERS):
            writer.commit()
        check()
        loads += 1
    for writer in writers:
        writer.close()
    assert len(reader.loaded) == loads * 2  # one in each partition


def test_a_topic_is_the_table_after_each_load_however_transactions_overlap(site: Site, dsn: str) -> None:
    run(site, dsn, schedules=30, seed=1)


@pytest.mark.long
def test_a_topic_is_the_table_in_a_thousand_schedules(site: Site, dsn: str) -> None:
    run(site, dsn, schedules=1_000, seed=2)
