"""Runs a service on random records. Results must not depend on batch boundaries, whatever the input."""

from __future__ import annotations

import dataclasses
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from moneystate.api.service import Service
from moneystate.engine.items import LIKELY_SINCE
from moneystate.records.iso_time import from_ms
from moneystate.records.json_value import Json
from moneystate.records.odd_times import ADVICE
from moneystate.records.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table
from moneystate.records.types import Header
from moneystate.runtime.failures import EXCEPTION
from moneystate.runtime.json_topic import DEBEZIUM
from moneystate.runtime.lookup_plan import LookupPlan
from moneystate.runtime.plan_parts import InputPlan
from moneystate.runtime.table_plan import TablePlan
from moneystate.testing.bench import CRASH, Bench
from moneystate.testing.event_times import EventTimeWarning
from moneystate.testing.purity import ImpureWarning

_FURTHER_MS = 1_000_000_000
_LINE_OF_CODE = re.compile(r"\w+ at \S+:\d+")
START_MS = 1_700_000_000_000
STEP_MS = 2_000
LATEST_MS = 60_000  # how far a record may be behind
TEXTS = ("a", "b", "c", "d", "e", "f", "ü", "")
ITEMS = 3


class Generated(NamedTuple):
    """Holds what the service made of random records."""

    outputs: int
    dead_letters: dict[str, int]  # by reason
    failures: list[str]  # exceptions of its functions, each line of code once, with the first record
    warnings: list[str]


def check_batches(service: Service[Any], records: int, seed: int) -> tuple[int, dict[str, int]]:
    """Runs the service on `records` random records. Returns the number of outputs, and of dead letters by reason.
    Raises AssertionError if different batches give different results."""
    ran = run_generated(service, records, seed)
    return ran.outputs, ran.dead_letters


@contextmanager
def _in_silence() -> Iterator[None]:
    """`moneystate check` reports by itself what a bench warns of."""
    with warnings.catch_warnings():
        for category in (ImpureWarning, EventTimeWarning):
            warnings.simplefilter("ignore", category)
        yield


@_in_silence()
def run_generated(service: Service[Any], records: int, seed: int) -> Generated:
    """Works like `check_batches`."""
    bench = Bench(service, seed=seed, partitions=2, dead_letter_errors=True)
    inputs = [inp for inputs_of_topic in bench.plan.inputs.values() for inp in inputs_of_topic.values()]
    inputs = [inp for inp in inputs if inp.table is None or (inp.format != DEBEZIUM and inp.decode is None)]
    chance = random.Random(seed)
    declared = {(i.topic, i.record): i for i in service.inputs}
    for number in range(records):
        plan = chance.choice(inputs)
        if plan.table is not None:
            _write_row(bench, bench.plan.table_of[plan.code], chance, START_MS + STEP_MS * number)
            continue
        event_time_ms = START_MS + STEP_MS * number - chance.choice((0, 0, 0, chance.randrange(LATEST_MS)))
        record = random_value(plan.codec.record, chance, event_time_ms)
        to = declared[plan.topic, plan.codec.record.cls]
        order_time_ms = START_MS + STEP_MS * number if to.timed else None
        arrival_ms = START_MS + STEP_MS * number if to.arrival else None
        headers = _headers(plan, chance, event_time_ms)
        bench.send(record, to=to, order_time_ms=order_time_ms, arrival_ms=arrival_ms, headers=headers)
        if chance.random() < 0.01:
            bench.send(CRASH)
    for lookup in bench.plan.lookups.values():
        _reply(bench, lookup, chance)
    bench.end()
    letters = bench.run.letters()
    failures = {_code_of(detail): detail for reason, detail in reversed(letters) if reason == EXCEPTION}
    return Generated(
        outputs=sum(len(bench.out(output)) for output in service.outputs),
        dead_letters=dict(Counter(reason for reason, _ in letters)),
        failures=sorted(failures.values()),
        warnings=[warning for plan in inputs if (warning := _odd_time(plan, chance))],
    )


def _reply(bench: Bench, plan: LookupPlan, chance: random.Random) -> None:
    """Sends a random reply to each request of a lookup."""
    for request in bench.out(plan.lookup.requests):
        reply = random_value(plan.reply.record, chance, START_MS)
        of_request = {name: getattr(request, name) for name in plan.shared}
        bench.send(dataclasses.replace(reply, **of_request), to=plan.lookup.replies)


def _write_row(bench: Bench, planned: TablePlan, chance: random.Random, arrival_ms: int) -> None:
    """One row in ten is removed again."""
    row = random_value(planned.codec.record, chance, arrival_ms)
    key = chance.choice(TEXTS) if planned.keys is None else planned.keys.keys(row)[0].decode()
    bench.rows(planned.table, {key: None if chance.random() < 0.1 else row}, arrival_ms=arrival_ms)


def _code_of(failure: str) -> str:
    """The line of code in the detail of a dead letter, without the record and the message."""
    line = _LINE_OF_CODE.search(failure)
    return line.group() if line else failure


def _odd_time(plan: InputPlan, chance: random.Random) -> str:
    """A warning if a function makes event times of another unit than ms of the record's times; "": it does not, or this
    cannot be seen."""
    if plan.time_header or plan.timed or plan.arrival or not plan.ordered:
        return ""
    state = chance.getstate()
    times = []
    for near_ms in (START_MS, START_MS + _FURTHER_MS):
        chance.setstate(state)
        try:
            times.append(plan.time(random_value(plan.codec.record, chance, near_ms)))
        except Exception:  # the run on random records reports it
            return ""
    if type(times[0]) is not int or type(times[1]) is not int or times[0] == times[1]:
        return ""
    if times[0] >= LIKELY_SINCE and times[1] - times[0] == _FURTHER_MS:
        return ""
    return (
        f"input {plan.topic!r} of {plan.codec.record.short}: warning: a time of {from_ms(START_MS)} became "
        f"{from_ms(times[0])}. Do: {ADVICE}"
    )


def _headers(plan: InputPlan, chance: random.Random, event_time_ms: int) -> dict[str, str | bytes | None]:
    """The headers from which the input reads its keys and its time."""
    parts = [] if plan.keys is None else plan.keys.parts
    headers: dict[str, str | bytes | None] = {p.name: chance.choice(TEXTS) for p in parts if isinstance(p, Header)}
    return headers | ({plan.time_header: str(event_time_ms)} if plan.time_header else {})


def random_value(shape: Shape, chance: random.Random, near_ms: int) -> Any:
    """A random value of a field or record, with times near `near_ms`."""
    if isinstance(shape, Record):
        return shape.cls(**{f.name: random_value(f.shape, chance, near_ms) for f in shape.fields})
    if isinstance(shape, Maybe):
        return None if chance.random() < 0.3 else random_value(shape.inner, chance, near_ms)
    if isinstance(shape, Array):
        return [random_value(shape.inner, chance, near_ms) for _ in range(chance.randrange(ITEMS))]
    if isinstance(shape, Table):
        return {
            chance.choice(TEXTS): random_value(shape.inner, chance, near_ms) for _ in range(chance.randrange(ITEMS))
        }
    if isinstance(shape, Symbols):
        return chance.choice(shape.symbols)
    if isinstance(shape, Exact):
        return Decimal(chance.randrange(-100, 10_000)).scaleb(-shape.digits.scale)
    assert isinstance(shape, Plain)
    return _plain(shape.kind, chance, near_ms)


def _plain(kind: str, chance: random.Random, near_ms: int) -> Any:
    if kind == "millis":
        return near_ms
    if kind == "string":
        return chance.choice(TEXTS)
    if kind == "boolean":
        return chance.random() < 0.5
    if kind == "double":
        return chance.choice((0.1, 0.2, 0.3, 1e16, -1.0))
    if kind == "bytes":
        return chance.randbytes(chance.randrange(4))
    if kind == "json":
        return Json.of({"n": chance.randrange(5)})
    return chance.choice((0, 1, -1, chance.randrange(100)))
