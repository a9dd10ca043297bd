"""The statements for a table's rows. All names are quoted; values only travel as parameters and COPY data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moneystate.apply.column_types import Column


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted_table(table: tuple[str, str]) -> str:
    return f"{quoted(table[0])}.{quoted(table[1])}"


@dataclass(frozen=True)
class Staged:
    """Statements that go through a temporary table: make it, fill it, use it.

    It stays with the session and is emptied at each commit. Its name stands for its columns, so that a session that a
    pooler gives to several clients has one for each form.
    """

    stage: str
    make: str
    copy: str
    use: str


def upsert(table: tuple[str, str], columns: Sequence[Column], key: Sequence[str]) -> Staged:
    """Puts rows in, in the order in which they were copied."""
    names = [c.name for c in columns]
    make, copy, stage = _stage(table, names, [c.type.shown for c in columns])
    listed = ", ".join(map(quoted, names))
    others = [name for name in names if name not in key]
    action = f"UPDATE SET {', '.join(f'{quoted(n)} = EXCLUDED.{quoted(n)}' for n in others)}" if others else "NOTHING"
    conflict = ", ".join(map(quoted, key))
    use = (
        f"INSERT INTO {quoted_table(table)} ({listed}) SELECT {listed} FROM {stage} "
        f"ON CONFLICT ({conflict}) DO {action}"
    )
    return Staged(stage, make, copy, use)


def delete(table: tuple[str, str], key: Sequence[Column]) -> Staged:
    names = [c.name for c in key]
    make, copy, stage = _stage(table, names, [c.type.shown for c in key])
    same = " AND ".join(f"t.{quoted(n)} = d.{quoted(n)}" for n in names)
    return Staged(stage, make, copy, f"DELETE FROM {quoted_table(table)} AS t USING {stage} AS d WHERE {same}")


def append(table: tuple[str, str], columns: Sequence[Column]) -> str:
    return f"COPY {quoted_table(table)} ({', '.join(quoted(c.name) for c in columns)}) FROM STDIN"


def _stage(table: tuple[str, str], names: Sequence[str], types: Sequence[str]) -> tuple[str, str, str]:
    """The statements that make and fill a temporary table with these columns of the table, and its name."""
    form = "\x00".join([*table, *names, *types])
    stage = f"pg_temp.{quoted('moneystate_' + hashlib.sha256(form.encode()).hexdigest()[:16])}"
    listed = ", ".join(map(quoted, names))
    make = (
        f"CREATE TEMP TABLE IF NOT EXISTS {stage.removeprefix('pg_temp.')} ON COMMIT DELETE ROWS "
        f"AS SELECT {listed} FROM {quoted_table(table)} WITH NO DATA"
    )
    return make, f"COPY {stage} ({listed}) FROM STDIN", stage


REBUILT: Final = ("pg_temp", "moneystate_rebuilt")


def stage_whole(table: tuple[str, str]) -> list[str]:
    """Makes an empty copy of a table, with its constraints, for one transaction or session."""
    return [
        f"DROP TABLE IF EXISTS {quoted_table(REBUILT)}",
        f"CREATE TEMP TABLE {quoted(REBUILT[1])} (LIKE {quoted_table(table)} INCLUDING ALL)",
    ]


def merge_whole(table: tuple[str, str], columns: Sequence[Column], key: Sequence[str]) -> list[str]:
    """Makes a table equal to its copy in these columns, and touches only rows that differ."""
    own, copy = quoted_table(table), quoted_table(REBUILT)
    same = " AND ".join(f"t.{quoted(n)} = r.{quoted(n)}" for n in key)
    others = [c for c in columns if c.name not in key]
    listed = ", ".join(quoted(c.name) for c in columns)
    statements = [f"DELETE FROM {own} AS t WHERE NOT EXISTS (SELECT 1 FROM {copy} AS r WHERE {same})"]
    if others:
        sets = ", ".join(f"{quoted(c.name)} = r.{quoted(c.name)}" for c in others)
        differ = " OR ".join(f"{_compared('t', c)} IS DISTINCT FROM {_compared('r', c)}" for c in others)
        statements.append(f"UPDATE {own} AS t SET {sets} FROM {copy} AS r WHERE {same} AND ({differ})")
    missing = f"NOT EXISTS (SELECT 1 FROM {own} AS t WHERE {same})"
    statements.append(f"INSERT INTO {own} ({listed}) SELECT {listed} FROM {copy} AS r WHERE {missing}")
    return [*statements, f"DROP TABLE {copy}"]


def _compared(alias: str, column: Column) -> str:
    """JSON has no equality."""
    return f"{alias}.{quoted(column.name)}{'::text' if column.type.name == 'json' else ''}"


def create_table(table: tuple[str, str], columns: Sequence[Column], key: Sequence[str]) -> str:
    lines = [f"    {quoted(c.name)} {c.type.shown}{'' if c.nullable else ' NOT NULL'}" for c in columns]
    if key:
        lines.append(f"    PRIMARY KEY ({', '.join(map(quoted, key))})")
    return f"CREATE TABLE IF NOT EXISTS {quoted_table(table)} (\n" + ",\n".join(lines) + "\n);"


def add_columns(table: tuple[str, str], columns: Sequence[Column]) -> list[str]:
    """New columns are nullable: rows that are there have no value for them."""
    return [f"ALTER TABLE {quoted_table(table)} ADD COLUMN {quoted(c.name)} {c.type.shown};" for c in columns]
