"""What a reconciliation is started with: its inputs and pairs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import fastavro

import moneystate as ms
from moneystate.records.avro_types import parse
from moneystate.records.empty_items import has_empty_items
from services.reconciliation.records import Role

DAY_MS = 86_400_000
MAX_NAME = 200


@dataclass(frozen=True)
class Side:
    """One side of a pair: the items of a role of a store."""

    store: str
    role: Role


@dataclass(frozen=True)
class Pair:
    """`n_ms`: how long one side waits for the other; `m_ms`: how long after its event time an event can still be
    found; `o_ms`: the length of an interval of the completeness; `retention_ms`: how long queries see a lost item."""

    name: str
    expected: Side
    actual: Side
    n_ms: int
    m_ms: int
    o_ms: int
    report_duplicates: bool = False
    retention_ms: int = 7 * DAY_MS

    def interval_of(self, time_ms: int) -> int:
        """The start of the interval that a time is in."""
        return time_ms - time_ms % self.o_ms

    def next_multiple(self, time_ms: int) -> int:
        """Returns the first multiple of o at or after a time."""
        return -(-time_ms // self.o_ms) * self.o_ms

    def last_write(self, interval_start: int) -> int:
        """Returns when the final record of an interval is written."""
        return interval_start + self.o_ms + self.m_ms


@dataclass(frozen=True)
class Fields:
    """Paths of fields in a value (`payment.id`); an empty one is not read."""

    id: str
    source: str
    time: str
    parts: str = ""
    derived_from: str = ""
    derived_from_source: str = ""
    filtered: str = ""


@dataclass(frozen=True)
class InputConfig:
    """A topic of inventory items; or, with `store` and `role`, any topic as that role of the store: of CloudEvents, of
    records with id, source and time in `fields`, or of inventory items that leave out store and role. `schema`: the
    Avro schema of values with `fields`, as JSON text; `schemas`: its other versions."""

    topic: str = "inventory-items"
    format: Literal["json", "avro", "confluent"] = "json"
    bound_ms: int | None = None
    store: str = ""
    role: Role | None = None
    fields: Fields | None = None
    schema: str = ""
    schemas: tuple[str, ...] = ()


@dataclass(frozen=True)
class Config:
    """`format`: of the findings and of the completeness."""

    inputs: tuple[InputConfig, ...] = (InputConfig(),)
    pairs: tuple[Pair, ...] = ()
    format: Literal["json", "avro"] = "json"


def check(service: ms.Service[Any], config: Config) -> None:
    """Raises ServiceError for what cannot be right. Without a pair it is not to be run."""
    if not config.inputs:
        service.fail("inputs: there is none.", "name a topic, or leave out the key.")
    for given in config.inputs:
        _check_input(service, given)
    for name, n in Counter([pair.name for pair in config.pairs]).items():
        if n > 1:
            service.fail(f"pairs: the name {name!r} is given {n} times.", "give each pair a name of its own.")
    for pair in config.pairs:
        _check_pair(service, pair)
    if not config.pairs:
        service.refuse_start(
            "pairs: expected one or more, found none.",
            "give --config FILE with [[reconciliation.pairs]]: name, expected, actual, n, m and o.",
        )


def _check_input(service: ms.Service[Any], given: InputConfig) -> None:
    where = f"input {given.topic!r}"
    if (given.store == "") != (given.role is None):
        service.fail(f"{where}: it has one of store and role.", "give both, or none for inventory items.")
    if given.fields is None:
        if given.schema or given.schemas:
            service.fail(f"{where}: it has a schema, but no fields.", "say which fields to read, or leave out schema.")
        return
    if given.role is None:
        service.fail(f"{where}: fields are given, but neither store nor role.", "say whose role the topic is.")
    if (given.format == "avro") != bool(given.schema):
        service.fail(f"{where}: format is {given.format}.", "give a schema for fields of Avro values, else none.")
    if given.schemas and not given.schema:
        service.fail(f"{where}: schemas without schema.", "give the version that most values have as schema.")
    for text in (given.schema, *given.schemas) if given.schema else ():
        try:
            source = json.loads(text)
            fastavro.parse_schema(source)  # fastavro reads the values
            schema = parse(source, foreign=True)
        except Exception as e:  # whatever the library raises for a text that is no schema
            service.fail(f"{where}: schema is no Avro schema ({type(e).__name__}: {e}).", "give one as JSON text.")
        if has_empty_items(schema):
            service.fail(
                f"{where}: schema has an array whose items take no bytes, so a few bytes can name any number of them.",
                "give the items a field, or leave the array out.",
            )


def _check_pair(service: ms.Service[Any], pair: Pair) -> None:
    where = f"pair {pair.name!r}"
    if not 1 <= len(pair.name) <= MAX_NAME:
        service.fail(f"pairs: a name has {len(pair.name)} characters.", f"give each pair one of 1 to {MAX_NAME}.")
    if pair.expected == pair.actual:
        service.fail(f"{where}: expected and actual are the same store and role.", "compare two different sides.")
    if pair.n_ms < 0:
        service.fail(f"{where}: n is {pair.n_ms} ms.", "give 0 or more.")
    if pair.m_ms < pair.n_ms:
        service.fail(f"{where}: m ({pair.m_ms} ms) is less than n ({pair.n_ms} ms).", "give an m of n or more.")
    if pair.o_ms <= 0:
        service.fail(f"{where}: o is {pair.o_ms} ms.", "give the length of an interval, more than 0.")
    if pair.retention_ms < 0:
        service.fail(f"{where}: retention is {pair.retention_ms} ms.", "give 0 or more.")
