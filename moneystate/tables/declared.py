"""What a service says about a table: the record of its rows, and their key."""

from __future__ import annotations

from typing import NamedTuple

from moneystate.errors import ConfigError
from moneystate.records.shapes import Record
from moneystate.runtime.json_topic import JSON
from moneystate.runtime.plans import plan_of
from moneystate.tables.records import Check


class TableOfService(NamedTuple):
    record: Record
    key: tuple[str, ...]  # names of fields; empty: the Kafka key, of which the service says nothing
    check: Check


def table_of_service(reference: str, topic: str) -> TableOfService:
    """`topic`: without prefix. Raises ConfigError if the service has no such table."""
    plan = plan_of(reference)
    tables = {table.topic: table for table in plan.service.tables.values()}
    if topic not in tables:
        has = f"its tables are {', '.join(tables)}" if tables else "it has none"
        raise ConfigError(f"--service: expected a service with the table {topic!r}, but {has}.", "correct --topic.")
    table = tables[topic]
    if table.format != JSON:
        raise ConfigError(
            f"--service: expected a table in the format json, found {table.format}.", "a load writes no other."
        )
    if table.decode is not None:
        raise ConfigError(
            f"--service: the table {topic!r} has rows that a function of the service reads.",
            "leave --service out, and name the key.",
        )
    codec = plan.codec(table.record, repr(table))
    key = (table.key,) if isinstance(table.key, str) else table.key or ()
    return TableOfService(codec.record, key, codec.from_json)
