"""Values as text: nothing is rounded, cut off or reinterpreted. The database's own reading is the judge."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.apply.column_types import ColumnType
from moneystate.apply.value_types import BadValue, Day, Time, Unitless
from moneystate.apply.values import copy_line, writer_for
from moneystate.devpostgres import DevPostgres
from moneystate.records.json_number import Number
from tests.budget import examples

INT = ColumnType("int4")
NUMERIC = ColumnType("numeric", precision=6, scale=2)
TEXT = ColumnType("text")
VARCHAR = ColumnType("varchar", length=3)
TIMES = ColumnType("timestamptz")
TEXTS = ColumnType("_text", item=TEXT)


def written(kind: ColumnType, value: Any, remove_nul: bool = False) -> str:
    return writer_for(kind, remove_nul)(value)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (INT, 7, "7"),
        (INT, Number("-7"), "-7"),
        (INT, Number("7.0"), "7"),
        (NUMERIC, Decimal("1.50000"), "1.50000"),
        (NUMERIC, Number("15e-1"), "1.5"),
        (NUMERIC, 0.1, "0.1"),
        (ColumnType("float8"), Number("0.1"), "0.1"),
        (ColumnType("float4"), Number("0.1"), "0.100000001"),
        (TEXT, Number("1.10"), "1.10"),
        (TEXT, Time(0), "1970-01-01T00:00:00.000Z"),
        (TIMES, Time(1), "1970-01-01T00:00:00.001Z"),
        (TIMES, "2026-01-31T01:02:03.4567+01:00", "2026-01-31T00:02:03.456Z"),
        (TIMES, Time(-62_198_755_200_000), "0002-01-01T00:00:00.000Z BC"),
        (ColumnType("timestamp"), Time(0), "1970-01-01T00:00:00.000"),
        (ColumnType("date"), Day(1), "1970-01-02"),
        (ColumnType("bytea"), b"\x00\xff", "\\x00ff"),
        (ColumnType("bool"), True, "true"),
        (ColumnType("jsonb"), {"a": [Number("1.10"), None]}, '{"a": [1.10, null]}'),
        (TEXTS, ['a"\\', None, "NULL", ""], '{"a\\"\\\\",NULL,"NULL",""}'),
        (ColumnType("_int4", item=INT), [1, None], "{1,NULL}"),
    ],
)  # fmt: skip
def test_a_value_that_fits_is_written_as_it_is(kind: ColumnType, value: Any, text: str) -> None:
    assert written(kind, value) == text


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (INT, 2**31, "32 bits"),
        (INT, Number("1e400000000"), "whole number"),
        (INT, True, "number"),
        (INT, "7", "number"),
        (NUMERIC, Number("1.005"), "2 decimal places"),
        (NUMERIC, Number("12345"), "4 digits"),
        (NUMERIC, float("nan"), "finite"),
        (ColumnType("numeric"), Number("1e999999"), "bounds"),
        (ColumnType("float8"), Number("0.12345678901234567890"), "exactly"),
        (ColumnType("float8"), Number("1e999"), "exactly"),
        (ColumnType("float4"), Number("0.123456789"), "exactly"),
        (VARCHAR, "abcd", "3 characters"),
        (TEXT, "a\x00b", "NUL"),
        (TEXT, "\ud800", "surrogate"),
        (TEXT, b"a", "bytes"),
        (ColumnType("jsonb"), {"a": "\x00"}, "NUL"),
        (TIMES, "2026-01-31", "offset"),
        (TIMES, Unitless("7"), "unit"),
        (TIMES, Time(10**17), "store"),
        (ColumnType("timestamptz", scale=0), Time(1), "0 digits"),
        (ColumnType("date"), "31.1.2026", "date"),
        (ColumnType("uuid"), "no", "UUID"),
        (ColumnType("color", labels=("red", "green")), "blue", "red, green"),
        (TEXTS, "a", "list"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused_and_not_told(kind: ColumnType, value: Any, why: str) -> None:
    with pytest.raises(BadValue, match=why) as refused:
        written(kind, value)
    assert "abcd" not in str(refused.value)


def test_nul_is_removed_where_asked() -> None:
    assert written(TEXT, "a\x00b", remove_nul=True) == "ab"
    assert written(ColumnType("jsonb"), {"a": "x\x00\\u0000"}, remove_nul=True) == '{"a": "x\\\\u0000"}'


def test_a_line_of_copy_escapes_what_ends_columns_and_lines() -> None:
    assert copy_line(["a\tb\nc\\d\r", None, ""]) == "a\\tb\\nc\\\\d\\r\t\\N\t\n"


KINDS: list[tuple[str, ColumnType, st.SearchStrategy[Any]]] = [
    ("text", TEXT, st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))),
    ("bigint", ColumnType("int8"), st.integers(-(2**63), 2**63 - 1)),
    ("numeric", ColumnType("numeric"), st.decimals(allow_nan=False, allow_infinity=False)),
    ("double precision", ColumnType("float8"), st.floats(allow_nan=False)),
    ("bytea", ColumnType("bytea"), st.binary()),
    ("text[]", TEXTS, st.lists(st.one_of(st.none(), st.text(st.characters(codec="ascii", exclude_characters="\x00"))))),
]


@settings(max_examples=examples(200))
@given(st.data())
def round_trip(connection: psycopg.Connection[Any], data: st.DataObject) -> None:
    rows = [data.draw(strategy) for _, _, strategy in KINDS]
    texts = [writer_for(kind, False)(value) for (_, kind, _), value in zip(KINDS, rows, strict=True)]
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        with cursor.copy("COPY written FROM STDIN") as copy:
            copy.write(copy_line(texts))
        stored = cursor.execute("SELECT * FROM written").fetchone()
    assert stored is not None
    assert list(stored) == rows


def test_the_database_reads_what_was_written(postgres: DevPostgres) -> None:
    columns = ", ".join(f"c{n} {name}" for n, (name, _, _) in enumerate(KINDS))
    with psycopg.connect(postgres.dsn()) as connection:
        connection.execute(f"CREATE TEMP TABLE written ({columns})")
        connection.commit()
        round_trip(connection)
