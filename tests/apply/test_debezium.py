"""A table that Debezium captures is copied to another one: real events with the schemas that Connect gives them, and
keys in many partitions, which no lower level has."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import pytest

from moneystate.devdebezium import Connector, DevDebezium
from tests.apply.harness import Site
from tests.apply.model import DEAD_LETTERS

COLUMNS: Final = (
    "(id int PRIMARY KEY, name text, grade numeric(4,1), born date, at timestamptz, seen timestamp(3), ok boolean)"
)
TARGET: Final = """
[rows.copies]
topic = "db.public.students"
format = "debezium"
key = "id"
table = ["public", "copies"]
"""
INSERT: Final = (
    "INSERT INTO students SELECT n, 'name ' || n, n / 10.0, '2000-01-01'::date + n, "
    "'2026-01-02T03:04:05.678Z'::timestamptz + n * interval '1 s', '2026-01-02 03:04:05.678', n % 2 = 0 "
    "FROM generate_series({}, {}) n"
)


@pytest.fixture
def captured(site: Site, debezium: DevDebezium) -> Iterator[Site]:
    site.sql(f"CREATE TABLE students {COLUMNS}")
    site.sql(f"CREATE TABLE copies {COLUMNS}")
    site.sql(INSERT.format(1, 50))
    settings = {"topic.prefix": f"{site.prefix}db", "decimal.handling.mode": "precise"}
    connector = Connector(site.name, site.dsn, ["public.students"], partitions=3, schemas=True, settings=settings)
    debezium.create(connector)
    yield site
    debezium.delete(site.name)


def statements(chance: random.Random) -> Iterator[str]:
    yield INSERT.format(51, 100)
    for n in range(200):
        key = chance.randint(1, 100)
        yield chance.choice(
            [
                f"UPDATE students SET name = 'new {n}', grade = {n} / 10.0 WHERE id = {key}",
                f"UPDATE students SET grade = NULL, born = NULL WHERE id = {key}",
                f"DELETE FROM students WHERE id = {key}",
                f"UPDATE students SET id = {1000 + n} WHERE id = {key}",
                f"INSERT INTO students (id, name) VALUES ({key}, 'again') ON CONFLICT DO NOTHING",
            ]
        )
    yield "INSERT INTO students (id, name) VALUES (0, 'the last')"


def test_a_table_is_copied_with_its_updates_deletes_and_changed_keys(captured: Site) -> None:
    with captured.running(captured.config(TARGET)):
        for statement in statements(random.Random(3)):
            captured.sql(statement)
        captured.until(
            lambda: captured.sql("TABLE copies ORDER BY id") == captured.sql("TABLE students ORDER BY id"),
            "the same rows",
        )
        assert captured.published(f"{captured.name}-{DEAD_LETTERS}") == []
