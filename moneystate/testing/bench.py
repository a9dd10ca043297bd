"""`Bench`: runs a service in memory, with the engine, codecs and batches of a job, without Kafka, Spark and clocks.

    bench = Bench(orders.service, bound_ms=5_000)
    bench.send(OrderPlaced("a", "eve", 700, MINUTE), PaymentTaken("p1", "a", 700, 2 * MINUTE))
    assert bench.out(orders.closed) == [Closed("a", "PAID", 0)]

Every record is encoded to Avro and back, and every batch encodes its state. Before you read outputs or state,
heartbeats in all inputs advance time past the latest sent record. A record that you send afterwards with an earlier
time is late, as it would be in a job. `end` runs everything again with different batches, and fails if anything
differs. The first bench of a service warns about code that `moneystate check` would report. A bench warns about an
input whose event times look like seconds.

    bench = Bench(orders.service, customers.service)

    bench.reply(sessions, {"clientCountryCode": "UY"})

A lookup has no worker in a bench: the test says what the HTTP service answers.

Several services are connected by their topics. The log of an ordinary topic decides the order of its records, and a
replay reads this log unchanged. In a timed stream the writer decides the order, and a replay reads the records of the
writer's replay.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, overload

from moneystate.api.handles import Input, Map, Output, Value
from moneystate.api.lookup import FAILED, FOUND, NOT_FOUND, Lookup
from moneystate.api.service import Service
from moneystate.api.tables import DeclaredTable
from moneystate.api.view import View
from moneystate.engine.avro import HEADER_BYTES
from moneystate.errors import ServiceError
from moneystate.records.json_value import Json
from moneystate.records.reading import NO_HEADERS
from moneystate.records.shapes import Shapes
from moneystate.runtime.json_topic import JSON
from moneystate.runtime.lookup_plan import Attempt, Unusable
from moneystate.runtime.plan import Plan
from moneystate.runtime.query_plan import QueryPlan
from moneystate.runtime.table_plan import TablePlan
from moneystate.runtime.table_rows import text_of
from moneystate.testing.event_times import TimeJudge
from moneystate.testing.loops import advance_loops, advance_to
from moneystate.testing.member import Cuts, Member, connect, in_order
from moneystate.testing.purity import warn_once
from moneystate.testing.run import CRASH, Crash, Entry, Run, Whole

Q = TypeVar("Q")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")
REPLAYS: Final = 2
TIMED_PARTITIONS: Final = 3

__all__ = ["CRASH", "Bench"]


class Bench:
    """Runs services in memory, for tests."""

    def __init__(
        # `rules`: replace the declared rules; only for a single service
        self, service: Service[R], *more: Service[Any], bound_ms: int = 20_000, rules: R | None = None,
        cuts: Cuts = "random", seed: int = 0, partitions: int = 1, key_groups: int = 3,
        dead_letter_errors: bool = False,
    ) -> None:  # fmt: skip
        if rules is not None and more:
            raise ValueError("expected rules= with a single service, found several: declare each with its rules")
        self.service = service
        self.cuts: Cuts = cuts  # where batches end: at random places, all records in one batch, or after each record
        self.seed = seed
        self.partitions = partitions
        self.bound_ms = bound_ms
        self.dead_letter_errors = dead_letter_errors  # like `--on-error dead-letter`
        self.random = random.Random(seed)
        self.plan = Plan(service, rules)
        self.plans = in_order([self.plan, *(Plan(other) for other in more)])
        for plan in self.plans:
            warn_once(plan)
        self.members = self._members(self.random, key_groups, TIMED_PARTITIONS)
        self.first = next(member for member in self.members if member.plan is self.plan)
        self.latest: int | None = None  # time of the latest sent record
        self.ended = False
        self.replied: set[tuple[str, bytes, str]] = set()  # requests of lookups: lookup, key and identity
        self.times = TimeJudge()

    def _members(
        self, chance: random.Random, key_groups: int, timed_partitions: int, replay: bool = False
    ) -> list[Member]:
        members = []
        for plan in self.plans:
            writers = chance.randint(1, min(key_groups, timed_partitions))
            members.append(Member(plan, self.bound_ms, self.partitions, timed_partitions, writers))
        connect(members, only_timed=replay)
        for member in members:
            member.run = Run(member.plan, self.bound_ms, member.counts(), key_groups, self.dead_letter_errors)
            member.run.sim.loaded = member.loaded
        return members

    @property
    def run(self) -> Run:
        """The run of the first service."""
        return self.first.run

    @property
    def log(self) -> list[Entry]:
        """The log of the first service."""
        return self.first.log

    # Input

    def send(
        self, *records: Any, to: Input[Any] | None = None, order_time_ms: int | None = None,
        arrival_ms: int | None = None, headers: Mapping[str, str | bytes | None] = NO_HEADERS,
    ) -> None:  # fmt: skip
        """Sends records to their inputs. After a record, `CRASH` discards the result of the record's batch, which then
        runs again.

        - `to`: the input, if several take records of this type.
        - `headers`: of all records, for an input that reads its key or time from headers.
        - `order_time_ms`: of records in a timed stream whose writer is not in the bench.
        - `arrival_ms`: when the broker receives records of an input in arrival order. None: now, by the bench's clock
          (see `advance`).
        """
        for record in records:
            if isinstance(record, Crash):
                for member in self.members:
                    member.log.append(record)
                continue
            topic = self._topic(record, to)
            for member in self.members:
                if topic in member.topics:
                    content = _encoded(headers)
                    self._note(self._send(member, topic, record, to, content, order_time_ms, arrival_ms))

    def _send(
        self, member: Member, topic: str, record: Any, to: Input[Any] | None, headers: Mapping[str, bytes | None],
        order_time_ms: int | None, arrival_ms: int | None,
    ) -> int | None:  # fmt: skip
        plan = member.planned(record, to)
        if plan is not None:
            return member.send(plan, record, headers, order_time_ms, arrival_ms)
        # another service of the bench declares it, with its own record
        other = next(p for m in self.members if (p := m.planned(record, to)) is not None)
        value = other.codec.encode(record)
        if other.format == JSON:
            value = other.codec.transcode(value, HEADER_BYTES)
        return member.take(topic, Whole(None, value, headers, -1 if arrival_ms is None else arrival_ms, raw=True))

    def reply(
        self, lookup: Lookup[Q, Any, Any, Any], answer: Mapping[str, Any] | None = None, *, to: Q | None = None,
        failed: bool = False,
    ) -> None:  # fmt: skip
        """Replies to the open requests of a lookup, as its worker does. `answer`: the JSON object of the HTTP service.
        None: the service does not know it, or, with `failed`, has not answered. `to`: only to this request."""
        member = self._member(lookup.service)
        plan = member.plan.lookups[lookup]
        outcome = FAILED if failed else NOT_FOUND if answer is None else FOUND
        body = None if answer is None or failed else Json.of(answer).text.encode()
        for request in self.out(lookup.requests):
            asked = (lookup.name, plan.keys.keys(request)[0], plan.id_of(request))
            if asked in self.replied or to not in (None, request):
                continue
            self.replied.add(asked)
            try:
                reply = plan.reply_to(request, Attempt(outcome, 1, self.latest or 0), body)
            except Unusable as e:
                raise ValueError(f"{lookup!r}: no reply can be made of the answer: {e}") from None
            self.send(plan.reply.decode(reply), to=lookup.replies)

    def send_raw(
        self, topic: str, value: bytes | str | None = None, key: bytes | str | None = None, *,
        headers: Mapping[str, str | bytes | None] = NO_HEADERS, timestamp_ms: int = -1,
    ) -> None:  # fmt: skip
        """Sends a Kafka record to an input topic, in the topic's format."""
        readers = [member for member in self.members if topic in member.topics]
        if not readers:
            raise ValueError(f"no input has the topic {topic!r}")
        if any(i.format == "confluent" for m in readers for i in m.plan.service.inputs if i.topic == topic):
            raise ValueError(f"{topic!r} has the format confluent, which needs a registry: send the record itself")
        for member in readers:
            self._note(member.take(topic, Whole(_bytes(key), _bytes(value), _encoded(headers), timestamp_ms, raw=True)))

    def rows(
        self, table: DeclaredTable[T], rows: Mapping[Any, T | bytes | None], *, arrival_ms: int | None = None
    ) -> None:  # fmt: skip
        """Writes rows of a table by key; None removes the row. Bytes are the record's value, as a table with `decode=`
        needs them. `arrival_ms`: when, as for `send`."""
        member, planned = self._table(table)
        for key, row in rows.items():
            self._note(member.row(planned, text_of(key), row, arrival_ms))

    def load(self, table: DeclaredTable[T], rows: Mapping[Any, T | bytes]) -> None:
        """The first load of a table: its rows hold from the beginning of time. Without it, the first load is empty."""
        member, planned = self._table(table)
        if member.processed or any(place[0] == planned.code for place in member.ends):
            raise ValueError(f"expected the first load of {table!r} before its other rows, and before other results")
        for key, row in rows.items():
            self._note(member.row(planned, text_of(key), row, None))
        member.end_load(planned, len(rows))

    def _table(self, table: DeclaredTable[Any]) -> tuple[Member, TablePlan]:
        for member in self.members:
            planned = member.plan.tables.get(table.name)
            if planned is not None and planned.table is table:
                return member, planned
        raise ValueError(f"expected a table of a service of this bench, found {table!r}")

    def _topic(self, record: Any, to: Input[Any] | None) -> str:
        """The topic that takes the record."""
        topics = {topic for member in self.members for topic in member.topics_of(record, to)}
        if len(topics) != 1:
            name = type(record).__name__
            problem = "no input takes" if not topics else f"inputs {', '.join(sorted(topics))} take"
            raise ValueError(f"{problem} records of type {name}: {'name one as to=' if topics else 'declare one'}")
        return topics.pop()

    def _note(self, time: int | None) -> None:
        if self.ended:
            raise ValueError("the bench has ended: send before end()")
        if time is not None:
            self.latest = time if self.latest is None else max(self.latest, time)
        now_ms = max(member.now_ms for member in self.members)
        for member in self.members:
            member.now_ms = now_ms

    def advance(self, ms: int) -> None:
        """Lets `ms` pass: in all inputs, time goes on from the latest record that was sent, and every timer that is due
        by then runs. For inputs in arrival order no record is needed for that, as in a job; other inputs get
        heartbeats."""
        if ms < 0:
            raise ValueError(f"expected a number of ms from 0 on, found {ms}")
        now_ms = max(self.latest or 0, *(member.now_ms for member in self.members)) + ms
        self._note(now_ms)
        for member in self.members:
            member.beat(now_ms + 1)
        advance_to(self.members, now_ms + 1, self.random, self.cuts)

    def _append(self, topic: int, partition: int, value: bytes) -> None:
        self.first.append(topic, partition, value)

    def _settle(self) -> None:
        """Processes all sent records, up to the time of the latest one. A late record has the time of the watermark,
        and is processed once that goes on."""
        if self.latest is None or self.ended:
            self._batches()
        else:
            time_ms = max(self.latest, *(member.run.sim.watermark for member in self.members)) + 1
            advance_to(self.members, time_ms, self.random, self.cuts)
        self.times.judge(self.members)

    def _batches(self) -> None:
        for member in self.members:
            member.batches(self.random, self.cuts)

    # Output

    @overload
    def out(self, output: Output[T], /) -> list[T]: ...
    @overload
    def out(self, *outputs: Output[Any]) -> list[Any]: ...
    def out(self, *outputs: Output[Any]) -> list[Any]:
        """All records of an output, or of several, in the order of the events and timers that caused them."""
        return [record for _, record in self.keyed(*outputs) if record is not None]

    @overload
    def keyed(self, output: Output[T], /) -> list[tuple[str, T | None]]: ...
    @overload
    def keyed(self, *outputs: Output[Any]) -> list[tuple[str, Any]]: ...
    def keyed(self, *outputs: Output[Any]) -> list[tuple[str, Any]]:
        """Works like `out`, with keys. None: a tombstone."""
        return self._member(outputs[0].service).run.keyed(*outputs)

    def dead_letters(self, of: Service[Any] | None = None) -> list[str]:
        """The reasons of all dead letters, in the order in which their records were sent. `of`: only this service's.
        Otherwise those of the first service, then those of the next."""
        return [reason for member in self._members_of(of) for reason in member.run.dead_letters()]

    def count(self, name: str, of: Service[Any] | None = None) -> int:
        return sum(member.run.count(name) for member in self._members_of(of))

    @overload
    def state(self, of: Value[S], key: str) -> S: ...
    @overload
    def state(self, of: Map[S], key: str) -> dict[str, S]: ...
    def state(self, of: Value[Any] | Map[Any], key: str) -> Any:
        """The record of a key in a value, or its entries in a map, by id."""
        view = self._member(of.service).run.view()
        return dict(view.entries(of, key)) if isinstance(of, Map) else view.get(of, key)

    def ask(self, query: Callable[Concatenate[View, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a query, as a caller of a query server gets it if the types allow that. Raises StepError for a
        result that its declared type does not have."""
        declared_by = [m.plan.name for m in self.members if any(q == query for q in m.plan.service.queries.values())]
        member = self._member(declared_by[0] if declared_by else self.plan.name)
        value = query(member.run.view(), *args, **kwargs)
        planned = query_plan(query, member.plan.service.namespace) if declared_by else None
        return value if planned is None else planned.result_of(value).value

    def entries(self, of: Service[Any] | None = None) -> Iterator[tuple[bytes, bytes]]:
        """All entries of a service's state, as stored. Default: the first service."""
        return iter(sorted(self._member(self.plan.name if of is None else of.name).run.entries()))

    def _member(self, name: str) -> Member:
        self._settle()
        matching = [member for member in self.members if member.plan.name == name]
        if not matching:
            raise ValueError(f"expected a service of this bench, found {name}: pass it to Bench")
        return matching[0]

    def _members_of(self, of: Service[Any] | None) -> list[Member]:
        self._settle()
        return self.members if of is None else [self._member(of.name)]

    def end(self, until_ms: int | None = None) -> None:
        """Advances time to its end, writers before readers, so that every timer is due. Then runs everything again with
        different batches, key groups and partitions of timed streams. Raises AssertionError if outputs or state
        differ.

        `until_ms`: the last time whose timers run, like `--drain-until`; not before the latest record.
        """
        if until_ms is not None and self.latest is not None and until_ms < self.latest:
            raise ValueError(f"expected until_ms= from the latest record on ({self.latest}), found {until_ms}")
        self._settle()
        for member in self.members:
            member.run.check_indices()
        advance_loops(self.members, until_ms, self.random, self.cuts)
        self.ended = True
        for member in self.members:
            member.batches(self.random, self.cuts)
            member.batch([], self.random, True, until_ms)
            member.run.check_indices()
        for replay in range(1, REPLAYS + 1):
            chance = random.Random(self.seed + replay)
            others = self._members(chance, chance.randint(1, 5), chance.randint(1, 4), replay=True)
            for live, other in zip(self.members, others, strict=True):
                other.replay(live, chance, self.cuts, until_ms)


@functools.lru_cache(256)
def query_plan(query: Callable[..., Any], namespace: str) -> QueryPlan | None:
    """None: the query has types that a query server does not accept."""
    try:
        return QueryPlan(query.__name__, query, Shapes(namespace), query.__name__)
    except ServiceError:
        return None


def _bytes(content: bytes | str | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def _encoded(headers: Mapping[str, str | bytes | None]) -> dict[str, bytes | None]:
    return {name: _bytes(content) for name, content in headers.items()}
