"""Compares the records of two states, in whatever order they come.

The records are in a SQLite database of a folder that is removed with it, so memory does not grow with the states.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from moneystate.ports.state import KEYS, Fact
from moneystate.savepoint.fingerprint import Fingerprint, of_facts

SIDES: Final = ("one", "other")
TABLE: Final = "CREATE TABLE {} (state TEXT, key TEXT, id TEXT, json TEXT, PRIMARY KEY (state, key, id)) WITHOUT ROWID"
DIFFERING: Final = """
SELECT state, key, id, one.json AS one, other.json AS other FROM one LEFT JOIN other USING (state, key, id)
    WHERE other.json IS NULL OR other.json <> one.json
UNION ALL
SELECT state, key, id, NULL, other.json FROM other LEFT JOIN one USING (state, key, id) WHERE one.json IS NULL
"""


class Item(NamedTuple):
    """A record of a state, as queries give it. `id`: of an entry of a map, else empty."""

    state: str
    key: str
    id: str
    json: str


class Difference(NamedTuple):
    """A record that two states do not have alike. None: the state does not have it."""

    state: str
    key: str
    id: str
    one: str | None
    other: str | None


@dataclass(frozen=True)
class Sum:
    """`fingerprint`: 32 hexadecimal digits, the same for the same records in any order."""

    records: int
    fingerprint: str


@dataclass(frozen=True)
class Comparison:
    """`first`: some of the differences, by state, key and id."""

    one: Sum
    other: Sum
    total: int
    first: list[Difference]


class Records:
    """The records of two states until the end of the block."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="moneystate-")
        self.db = sqlite3.connect(Path(self.folder.name) / "records.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = OFF")
        self.db.execute("PRAGMA synchronous = OFF")
        for side in SIDES:
            self.db.execute(TABLE.format(side))
        self.prints = dict.fromkeys(SIDES, Fingerprint())
        self.counts = dict.fromkeys(SIDES, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.db.close()
        self.folder.cleanup()

    def add(self, side: str, items: list[Item]) -> None:
        self.db.execute("BEGIN")
        self.db.executemany(f"INSERT INTO {side} VALUES (?, ?, ?, ?)", items)
        self.db.execute("COMMIT")
        self.prints[side] += fingerprint_of(items)
        self.counts[side] += len(items)

    def comparison(self, most: int) -> Comparison:
        one, other = (Sum(self.counts[side], str(self.prints[side]).partition("-")[0]) for side in SIDES)
        if one == other:
            return Comparison(one, other, 0, [])
        with closing(self.db.execute(f"SELECT count(*) FROM ({DIFFERING})")) as rows:
            [total] = rows.fetchone()
        with closing(self.db.execute(f"{DIFFERING} ORDER BY state, key, id LIMIT ?", (most,))) as rows:
            return Comparison(one, other, total, [Difference(*row) for row in rows])


def fingerprint_of(items: Iterable[Item]) -> Fingerprint:
    return of_facts(Fact(KEYS, one.state, one.key.encode(), (one.id.encode(),), (one.json.encode(),)) for one in items)
