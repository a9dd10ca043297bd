"""The rows of a query: PostgreSQL's values exactly, in one snapshot, and another database through SQLAlchemy."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from moneystate.devpostgres import DevPostgres
from moneystate.errors import ConfigError, SourceError
from moneystate.tables.columns import Declared, parsed_types
from moneystate.tables.query import QuerySource
from moneystate.tables.records import Made, RecordMaker

ID = Declared(("id",))
PASSWORD = "not-to-be-seen"


def made(folder: Path, sql: str, dsn: str, declared: Declared = ID) -> list[Made]:
    (folder / "dsn").write_text(f"{dsn}\n")
    with QuerySource(sql, folder / "dsn", declared).open() as opened:
        records = list(map(RecordMaker(declared.key, 10_000), opened.rows()))
        opened.check_unchanged()
        assert PASSWORD not in opened.identity
    return records


def value(folder: Path, sql: str, dsn: str) -> str:
    (record,) = made(folder, sql, dsn)
    assert record.value is not None, record
    return record.value.decode()


def test_values_of_postgresql_are_read_exactly(postgres: DevPostgres, tmp_path: Path) -> None:
    sql = """SELECT 9007199254740993 AS id, 1.10::numeric(20, 2) AS unit_price, 0.1::float8 AS d, true AS b,
        '2026-01-31 12:00:00.1239+02'::timestamptz AS t, '2026-01-31'::date AS day,
        '{"a": 1.50, "b": [1e2]}'::jsonb AS j, ARRAY[1, NULL] AS a, '\\x00ff'::bytea AS y,
        '00000000-0000-0000-0000-000000000001'::uuid AS u, NULL AS n, 'a%:b' AS s"""
    assert value(tmp_path, sql, postgres.dsn()) == (
        '{"a":[1,null],"b":true,"d":0.1,"day":"2026-01-31","id":9007199254740993,"j":{"a":1.50,"b":[100]},"n":null,'
        '"s":"a%:b","t":"2026-01-31T10:00:00.123Z","u":"00000000-0000-0000-0000-000000000001","unitPrice":1.10,'
        '"y":"AP8="}'
    )


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("'1 day'::interval", "x: a value of the type timedelta; convert it to another type in the source"),
        ("'NaN'::numeric", "x: NaN, which JSON cannot represent"),
        ("'2026-01-31'::timestamp", "x: a time without an offset; give --zone, or add the offset in the source"),
    ],
)
def test_a_value_that_json_cannot_represent_is_a_problem_of_its_row(
    expression: str, why: str, postgres: DevPostgres, tmp_path: Path
) -> None:
    assert made(tmp_path, f"SELECT 'k' AS id, {expression} AS x", postgres.dsn()) == [Made(1, b"k", None, why)]


def test_it_only_reads_in_one_snapshot_with_a_cursor_of_the_server(postgres: DevPostgres, tmp_path: Path) -> None:
    sql = """SELECT 1 AS id, current_setting('transaction_isolation') AS level, count(*) AS cursors,
        current_setting('transaction_read_only') AS read_only FROM pg_cursors"""
    assert value(tmp_path, sql, postgres.dsn()) == ('{"cursors":1,"id":1,"level":"repeatable read","readOnly":"on"}')


def test_a_connection_string_may_be_an_address(postgres: DevPostgres, tmp_path: Path) -> None:
    settings = psycopg.conninfo.conninfo_to_dict(postgres.dsn())
    address = f"postgresql://{settings['user']}:{settings['password']}@{settings['host']}:{settings['port']}/postgres"
    assert value(tmp_path, "SELECT 1 AS id", address) == '{"id":1}'


def test_another_database_is_read_through_sqlalchemy(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE prices (id TEXT, unit_price INTEGER)")
        connection.executemany("INSERT INTO prices VALUES (?, ?)", [("a", 1), ("b", None)])
    connection.close()
    records = made(tmp_path, "SELECT * FROM prices ORDER BY id", f"sqlite:///{tmp_path}/shop.db")
    assert [r.value for r in records] == [b'{"id":"a","unitPrice":1}', b'{"id":"b","unitPrice":null}']


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM no_such_table", "SELECT", "SELECT 1 AS other", "DELETE FROM x", "SELECT 1 AS id, 2 AS id"]
)
def test_a_query_that_fails_is_said_without_the_secret(sql: str, postgres: DevPostgres, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as raised:
        made(tmp_path, sql, postgres.dsn())
    assert "\n" not in str(raised.value)
    assert "password" not in str(raised.value)


def test_data_that_postgresql_refuses_is_not_in_the_error(postgres: DevPostgres, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as raised:
        made(tmp_path, f"SELECT CAST('{PASSWORD}' AS integer) AS id", postgres.dsn())
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize(
    "dsn", [f"nonsense {PASSWORD}", f"nosuchdatabase://u:{PASSWORD}@h/d", f"mysql+pymysql://u:{PASSWORD}@h/d"]
)
def test_a_connection_string_that_is_none_is_refused_without_it(dsn: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        made(tmp_path, "SELECT 1 AS id", dsn)
    assert PASSWORD not in str(raised.value)


def test_a_server_that_does_not_answer_is_an_error_of_the_source(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        made(tmp_path, "SELECT 1 AS id", "host=127.0.0.1 port=1 dbname=x")


def test_types_are_not_for_a_query(postgres: DevPostgres, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        made(tmp_path, "SELECT 1 AS id", postgres.dsn(), Declared(("id",), types=parsed_types("id=int")))
