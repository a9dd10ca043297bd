"""Clients of the university's database, whose transactions overlap."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import psycopg

from tests.services.changes.university import Event, Statement, Transaction, University

CONNECTIONS: Final = 4
ROLLED_BACK: Final = 0.05  # the share of transactions that are


class Committed(NamedTuple):
    id: str
    happened: list[Event]
    logged: bool  # whether it changed a row


@dataclass
class Begun:
    transaction: Transaction
    id: str
    left: list[Statement]


class Clients:
    """`committed`: the transactions, in the order of their commits."""

    def __init__(self, dsn: str, university: University, chance: random.Random) -> None:
        self._connections = [psycopg.connect(dsn) for _ in range(CONNECTIONS)]
        self._university = university
        self._chance = chance
        self._begun: list[Begun | None] = [None] * CONNECTIONS
        self.committed: list[Committed] = []

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def run(self, transactions: int, end_all: bool = True) -> None:
        """Goes on with so many more. `end_all` False: some are still open then."""
        while transactions or (end_all and any(self._begun)):
            number = self._chance.randrange(CONNECTIONS)
            begun = self._begun[number]
            if begun is None:
                if transactions:
                    self._begin(number)
                    transactions -= 1
            elif begun.left:
                execute(self._connections[number], begun.left.pop(0))
            else:
                self._end(number, begun)

    def _begin(self, number: int) -> None:
        planned = self._university.plan()
        row = self._connections[number].execute("SELECT pg_current_xact_id()::text").fetchone()
        assert row is not None
        self._begun[number] = Begun(planned, row[0], list(planned.statements))

    def _end(self, number: int, begun: Begun) -> None:
        self._begun[number] = None
        if self._chance.random() < ROLLED_BACK:
            self._connections[number].rollback()
            self._university.release(begun.transaction)
            return
        self._connections[number].commit()
        self._university.commit(begun.transaction)
        self.committed.append(Committed(begun.id, begun.transaction.happened, bool(begun.transaction.statements)))


def execute(connection: psycopg.Connection[Any], statement: Statement) -> None:
    if not statement.copied:
        connection.execute(statement.sql, statement.parameters or None)
        return
    with connection.cursor().copy(statement.sql) as copy:
        for row in statement.copied:
            copy.write_row(row)
