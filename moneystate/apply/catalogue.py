"""What the database's catalogue says of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moneystate.apply.column_types import Column, ColumnType
from moneystate.apply.database import Connected
from moneystate.errors import ConfigError

COLUMNS: Final = """
SELECT a.attname, a.attnotnull OR base.typnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> '',
       base.typname, CASE WHEN base.oid = t.oid THEN a.atttypmod ELSE t.typtypmod END,
       item.typname, coalesce(item.oid, base.oid)
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type base ON base.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_type item ON item.oid = base.typelem AND base.typcategory = 'A'
WHERE a.attrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
LABELS: Final = "SELECT enumtypid, array_agg(enumlabel::text ORDER BY enumsortorder) FROM pg_enum GROUP BY enumtypid"
# Only these can be the target of ON CONFLICT with nothing but columns.
UNIQUE: Final = """
SELECT array_agg(a.attname::text ORDER BY a.attname)
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey[0 : i.indnkeyatts - 1]) AS k(attnum)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND i.indisunique
  AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""
# The unique constraints, checks and foreign keys of a table, apart from those on the columns of the key.
OTHERS: Final = """
SELECT conname::text FROM pg_constraint
WHERE conrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND contype IN ('u', 'c', 'f', 'x') ORDER BY conname
"""
_NO_MODIFIER: Final = -1
_HEADER: Final = 4  # bytes that a type's modifier counts beside the length


def table_columns(connection: Connected, table: tuple[str, str]) -> list[Column] | None:
    """The columns of a table that can be written; None: there is no such table."""
    rows = connection.execute(COLUMNS, table).fetchall()
    if not rows:
        return None
    labels: dict[int, tuple[str, ...]] = {oid: tuple(names) for oid, names in connection.execute(LABELS).fetchall()}
    columns: list[Column] = []
    for name, not_null, has_default, generated, base, modifier, item, oid in rows:
        if not generated:
            inner = _type(item or base, modifier, labels.get(oid))
            kind = ColumnType(base, item=inner) if item else inner
            columns.append(Column(name, kind, nullable=not not_null, has_default=has_default))
    return columns


def check_key(connection: Connected, table: tuple[str, str], key: Sequence[str], where: str) -> None:
    """Raises ConfigError if the table has no primary key or unique index of exactly these columns."""
    indices = [names for (names,) in connection.execute(UNIQUE, table).fetchall()]
    if sorted(key) not in indices:
        raise ConfigError(
            f"{where} key: expected a primary key or a unique index of {', '.join(key)} on {'.'.join(table)}, "
            "found none.",
            "create one, or configure the key that the table has.",
        )


def other_constraints(connection: Connected, table: tuple[str, str]) -> list[str]:
    """Constraints with which dead letters may depend on how records are cut into transactions."""
    return [name for (name,) in connection.execute(OTHERS, table).fetchall()]


def _type(name: str, modifier: int, labels: tuple[str, ...] | None) -> ColumnType:
    if modifier == _NO_MODIFIER:
        return ColumnType(name, labels=labels)
    if name in ("varchar", "bpchar"):
        return ColumnType(name, length=modifier - _HEADER)
    if name == "numeric":
        packed = modifier - _HEADER
        scale = packed & 0x7FF
        return ColumnType(name, precision=packed >> 16, scale=scale - 0x800 if scale & 0x400 else scale)
    if name in ("timestamptz", "timestamp"):
        return ColumnType(name, scale=modifier)
    return ColumnType(name, labels=labels)
