"""Checks a service's declarations and compiles them into a plan: codecs, kinds of entries, numbers of topics and
streams.

An invalid declaration raises ServiceError, either here or when it is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from moneystate.api.fast_path import DeclaredFastPath
from moneystate.api.handles import AnyIndex, Input, Map, MapAt, MapTimer, Output, Timer, Value
from moneystate.api.service import Handler, Service
from moneystate.api.tables import TABLE_LOADED, DeclaredTable
from moneystate.api.upgrades import Earlier, earlier_versions
from moneystate.api.waits import WaitsFor
from moneystate.engine.items import TABLE_RANK
from moneystate.engine.limits import MAX_DURATION_MS
from moneystate.engine.processor import InputTopic
from moneystate.errors import ServiceError
from moneystate.records.codec import Codec
from moneystate.records.platform_records import (
    HEARTBEAT_RECORD,
    LINEAGE_RECORD,
    SEEN_RECORD,
    TIMER_RECORD,
    EarlyReply,
    kept_record,
)
from moneystate.records.reading import KeyReader, path_of
from moneystate.records.scans import scan_of
from moneystate.records.schema import header_of
from moneystate.records.shapes import Plain, Record, Shapes, Symbols, has_personal
from moneystate.records.wrong_values import wrong_default
from moneystate.runtime import layout
from moneystate.runtime.cells import NO_TTL, RecordKind, TimerKind, decode_entry
from moneystate.runtime.failures import line_of
from moneystate.runtime.forgetting_plan import ForgettingPlan
from moneystate.runtime.input_checks import check_input
from moneystate.runtime.json_topic_checks import check_json_topic
from moneystate.runtime.lookup_cells import EARLY_REPLIES
from moneystate.runtime.lookup_plan import LookupPlan
from moneystate.runtime.personal import reads_personal
from moneystate.runtime.personal_free import query_is_free
from moneystate.runtime.plan_parts import (
    EarlierInput,
    FastPathPlan,
    HandlerPlan,
    InputPlan,
    OutputPlan,
    StatePlan,
    TimerPlan,
)
from moneystate.runtime.query_plan import QueryPlan
from moneystate.runtime.seen_page import SeenKind
from moneystate.runtime.table_plan import TablePlan
from moneystate.runtime.unavailable import KEPT_COLUMNS, KeptColumns, KeptRows, UnavailableColumns
from moneystate.runtime.waiting import WaitPlan

MOST_RANKS: Final = 8
DEBEZIUM: Final = "debezium"
EARLY_REPLY_TTL_MS: Final = 1  # after the time of the request: then no step can ask it any more


def assign_codes(names: Iterable[str], saved: Mapping[str, int]) -> dict[str, int]:
    """The numbers that represent topics in the state. Saved numbers never change. New topics get the next numbers, in
    the order of declaration. Topics of the same rank are ordered by number."""
    codes = dict(saved)
    next_code = max(codes.values(), default=-1) + 1
    for name in names:
        if name not in codes:
            codes[name] = next_code
            next_code += 1
    return codes


class Plan:
    """A checked service, with codecs and numbers."""

    def __init__(
        self,
        service: Service[Any],
        rules: Any = None,
        codes: Mapping[str, int] | None = None,
        released: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.service = service
        self.name = service.name
        self.rules = service.rules if rules is None else rules  # the run's, or those of the declaration
        self.shapes = Shapes(service.namespace, style=service.wire)
        self.codecs: dict[type, Codec] = {}
        topics = dict.fromkeys([i.topic for i in service.inputs])
        self.codes = assign_codes(topics, codes or {})  # by topic
        self.topics = {code: topic for topic, code in self.codes.items()}
        self.released = released  # schemas of all released versions of the records
        self.kinds: dict[str, RecordKind] = {name: self._kind(state) for name, state in service.states.items()}
        self.kinds |= {table.name: self._kind(table.state) for table in service.tables.values()}
        if service.held is not None:
            self.kinds[service.held.name] = self._kind(service.held)
        self.tables = {table.name: self._table(table) for table in service.tables.values()}
        self.table_of = {planned.code: planned for planned in self.tables.values()}
        if any(self._unavailable(declared).keeps for declared in service.inputs):
            self.kinds[KEPT_COLUMNS] = self._kind(self._kept_columns())
        if service.lookups:
            self.kinds[EARLY_REPLIES] = self._kind(self._early_replies())
        self.by_prefix: dict[bytes, RecordKind | SeenKind | TimerKind] = {k.prefix: k for k in self.kinds.values()}
        self.removed: dict[
            bytes, RecordKind | SeenKind | TimerKind
        ] = {}  # kinds that the state may have from earlier declarations
        self.handlers: dict[Any, HandlerPlan] = {}
        for source, handler in service.handlers:
            self.handlers[source] = self._handler(source, handler)
        self.lookups: dict[Any, LookupPlan] = {}
        for lookup in service.lookups.values():
            self.lookups[lookup] = LookupPlan(lookup, self.codec)
            if lookup.replies not in self.handlers:
                service.fail(f"{lookup!r}: no function runs on its replies.", "put @service.on(lookup) before one.")
        self.inputs: dict[int, dict[bytes, InputPlan]] = {code: {} for code in self.topics}
        self.earlier_inputs: dict[int, dict[bytes, EarlierInput]] = {code: {} for code in self.topics}
        for declared in service.inputs:
            self._input(declared)
        self.forgetting = self._forgetting()
        self.timers: dict[Any, TimerPlan] = {}
        self.timer_of: dict[bytes, TimerPlan] = {}
        for timer in service.timers.values():
            self._timer(timer)
        self.outputs: dict[Any, OutputPlan] = {}
        self.streams = list(dict.fromkeys([output.topic for output in service.outputs]))
        for output in service.outputs:
            codec = self.codec(output.record, repr(output))
            keys = KeyReader(codec.record, output.key, self._where(output))
            if keys.needs_headers:
                service.fail(f"{output!r}: key={output.key!r}, but an output has no headers.", "use a field.")
            self.outputs[output] = OutputPlan(
                output, self.streams.index(output.topic), codec, keys, self._where(output)
            )
        for declared, fast in service.fast_paths.items():
            self._fast_path(declared, fast)
        self.dead_letter_stream = len(self.streams)
        self.heartbeat = Codec(HEARTBEAT_RECORD)
        self.lineage = header_of(LINEAGE_RECORD)
        self._check_indices()
        handles: list[Input[Any] | Output[Any]] = [*service.inputs, *service.outputs]
        for topic in dict.fromkeys([one.topic for one in handles if one.format == "json"]):
            check_json_topic(self, topic)
        if not any(i.handler for by_header in self.inputs.values() for i in by_header.values()):
            service.fail("no function runs on any of its inputs.", "put @service.on(...) before a function.")

    def _where(self, declared: object) -> str:
        return f"service {self.name!r}: {declared!r}"

    def kind_of(self, key: bytes) -> RecordKind | SeenKind | TimerKind | None:
        """The kind of an entry, by its key. None: a value or a map that the service does not declare."""
        place = layout.place_of(key)
        return None if place is None else self.kind_at(layout.prefix_of(place.kind, place.name))

    def asked_at(self, place: layout.Place, stored: bytes) -> int | None:
        """The time of the request of an open lookup, by its entry. None: the entry belongs to no lookup. Raises
        Malformed."""
        lookup = self.service.lookups.get(place.name) if place.kind == layout.ENTRY else None
        if lookup is None:
            return None
        entry = decode_entry(self.kinds[lookup.name], stored, place.owner, place.id).value
        return self.lookups[lookup].time(entry.request)

    def kind_at(self, prefix: bytes) -> RecordKind | SeenKind | TimerKind | None:
        """Works like `kind_of`, by the prefix of the entries' keys. The platform knows the entries of timers and of
        `unique` whether or not the service still declares them."""
        kind = self.by_prefix.get(prefix) or self.removed.get(prefix)
        if kind is None and prefix in self._own_maps():
            kind = self.removed[prefix] = self._kind(self._own_maps()[prefix])
        if kind is None and prefix[:1] in (layout.TIMER, layout.SEEN):
            name = prefix[layout.NAME_AT :].decode("ascii", "replace")
            if prefix[:1] == layout.TIMER:
                kind = TimerKind(prefix, name, header_of(TIMER_RECORD))
            else:
                kind = SeenKind(prefix, name, NO_TTL, header_of(SEEN_RECORD))
            self.removed[prefix] = kind
        return kind

    def _own_maps(self) -> dict[bytes, Map[Any]]:
        """The platform's maps, by the prefix of their entries' keys, unless the service has one of that name."""
        own: list[Map[Any]] = [Map(self.name, KEPT_COLUMNS, KeptColumns, None), self._early_replies()]
        return {layout.prefix_of(layout.ENTRY, m.name): m for m in own if m.name not in self.service.states}

    def every_kind(self) -> list[RecordKind]:
        """The kinds of values and maps, with those of the platform, which the state may have from earlier inputs."""
        own = list(self.kinds.values())
        platforms = [self.kind_at(prefix) for prefix in self._own_maps()]
        return [*own, *[kind for kind in platforms if isinstance(kind, RecordKind) and kind not in own]]

    def lookup_kinds(self) -> list[RecordKind]:
        """The states of lookups, which only replies may remove."""
        names = [*self.service.lookups, EARLY_REPLIES]
        return [kind for kind in self.every_kind() if kind.name in names]

    @cached_property
    def queries(self) -> dict[str, QueryPlan]:
        """The declared queries, ready to be called from outside."""
        where = f"service {self.name!r}"
        return {name: QueryPlan(name, function, self.shapes, where) for name, function in self.service.queries.items()}

    @cached_property
    def personal_indices(self) -> frozenset[str]:
        """The indices whose callers need the scope for personal fields."""
        indices = self.service.indices.values()
        return frozenset(index.name for index in indices if not self._is_open(index))

    def _is_open(self, index: AnyIndex[Any, Any]) -> bool:
        if index.personal is not None:
            return not index.personal
        return not reads_personal(index.by, self.codec(index.record, repr(index)).record)

    @cached_property
    def personal_queries(self) -> frozenset[str]:
        """The queries whose callers need the scope for personal fields."""
        return frozenset(query.name for query in self.queries.values() if not self._is_open_query(query))

    def _is_open_query(self, query: QueryPlan) -> bool:
        declared = self.service.personal_queries[query.name]
        if declared is not None:
            return not declared
        if not any(has_personal(kind.codec.record) for kind in self.kinds.values()):
            return True
        shape = query.result.record.fields[0]
        return shape.personal or query_is_free(
            query.function,
            query.names,
            shape.shape,
            self._record_of,
            lambda index: index.name not in self.personal_indices,
        )

    def _record_of(self, state: Value[Any] | Map[Any]) -> Record:
        return self.kinds[state.name].codec.record

    def codec(self, cls: type, where: str) -> Codec:
        record = self.shapes.record(cls, f"service {self.name!r}: {where}")
        if record.name == HEARTBEAT_RECORD.name:
            self.service.fail(f"{where}: {record.name} is the platform's own record.", "use another name.")
        if cls not in self.codecs:
            if wrong := wrong_default(record):
                raise ServiceError(f"service {self.name!r}: {where}: {wrong}", "declare X | None, or another default.")
            self.codecs[cls] = Codec(record)
        return self.codecs[cls]

    def duration(self, declared: int | Callable[[Any], int], where: str) -> int:
        try:
            duration_ms = declared(self.rules) if callable(declared) else declared
        except Exception as e:
            raise ServiceError(
                f"service {self.name!r}: {where}: its function raised {type(e).__name__}{line_of(e)}: {e}.",
                "correct the function; it gets the rules and returns a number of ms.",
            ) from e
        if type(duration_ms) is not int or duration_ms < 0:
            self.service.fail(f"{where}: expected a duration in ms, found {duration_ms!r}.", "give a whole number.")
        if duration_ms > MAX_DURATION_MS:
            self.service.fail(
                f"{where}: expected a duration of at most {MAX_DURATION_MS:,} ms, found {duration_ms:,}.",
                "give a shorter one; leave ttl_ms out if entries should not expire.",
            )
        return duration_ms

    # Inputs

    def input_topics(self) -> list[InputTopic]:
        """The inputs for the engine, sorted by code."""
        topics = []
        by_events = list(dict.fromkeys([i.topic for i in self.service.inputs if i.table is None]))
        for topic in dict.fromkeys([i.topic for i in self.service.inputs]):
            declared = [i for i in self.service.inputs if i.topic == topic]
            alike = {
                (i.rank, i.ordered, i.timed, i.arrival, i.bound_ms, i.max_future_ms, i.partitions) for i in declared
            }
            if len(alike) > 1:
                self.service.fail(
                    f"input {topic!r}: declared with different ranks, orders, bounds or partitions.",
                    "use the same for the topic.",
                )
            declared_rank = declared[0].rank
            table = declared[0].table
            if table is not None:
                rank = TABLE_RANK
            elif declared_rank is None:
                rank = min(by_events.index(topic), MOST_RANKS - 1)
            else:
                rank = declared_rank
            if table is None and not 0 <= rank < MOST_RANKS:
                self.service.fail(f"input {topic!r}: rank={rank}.", f"use one from 0 to {MOST_RANKS - 1}.")
            input_topic = InputTopic(self.codes[topic], topic, declared[0].ordered, rank)
            topics.append(
                input_topic._replace(
                    bound_ms=self._limit(declared[0], "bound_ms"),
                    max_future_ms=self._limit(declared[0], "max_future_ms"),
                    timed=declared[0].timed,
                    arrival=declared[0].arrival,
                    partitions=declared[0].partitions or 0,
                    table=table is not None,
                    waits=table is not None and table.ready == TABLE_LOADED,
                    compacted=table is not None and table.compacted,
                )
            )
        return sorted(topics)

    def _limit(self, declared: Input[Any], argument: str) -> int | None:
        limit = getattr(declared, argument)
        if limit is None:
            return None
        if not declared.ordered:
            self.service.fail(f"{declared!r}: {argument} with ordered=False.", f"remove {argument}.")
        return self.duration(limit, f"{declared!r}, {argument}")

    def _input(self, declared: Input[Any]) -> None:
        where = self._where(declared)
        codec = self.codec(declared.record, repr(declared))
        changes = declared.format == DEBEZIUM
        keys = None if declared.key is None else KeyReader(codec.record, declared.key, where, changes)
        planned = InputPlan(declared, self.codes[declared.topic], codec, keys, where)
        planned.handler = self.handlers.get(declared)
        check_input(where, planned, declared.format, [i for i in self.service.inputs if i.topic == declared.topic])
        if planned.handler is not None and keys is None and declared.table is None:
            self.service.fail(
                f"{declared!r}: without key, but {planned.handler.name} runs on it.", "name a field as key=."
            )
        if declared.unique is not None:
            planned.seen_id, shape = path_of(codec.record, declared.unique, where, "unique")
            if not isinstance(shape, Symbols) and shape not in (Plain("string"), Plain("long")):
                self.service.fail(
                    f"{declared!r}: unique={declared.unique!r} is not a string or whole number.", "use another field."
                )
            within_ms = self.duration(declared.within_ms, f"{declared!r}, within_ms")
            if within_ms == NO_TTL:
                self.service.fail(f"{declared!r}: unique={declared.unique!r} with a within_ms of 0.", "make it longer.")
            planned.seen = self._seen(declared.topic, within_ms)
        planned.lookup = next((p for lookup, p in self.lookups.items() if lookup.replies is declared), None)
        planned.unavailable = self._unavailable(declared)
        if planned.unavailable.keeps and planned.handler is not None:
            planned.rows = KeptRows(codec.record, self.kinds[KEPT_COLUMNS], planned.unavailable, where)
        if not planned.needs_whole_record():
            planned.scan = scan_of(codec.record, declared.time, None if planned.handler is None else declared.key)
        self.inputs[planned.code][codec.header] = planned
        for header, version in self._earlier(codec.record, lossy=True).items():
            self.earlier_inputs[planned.code][header] = EarlierInput(planned, version.read)

    def _forgetting(self) -> ForgettingPlan | None:
        declared = self.service.forgetting_declared
        if declared is None:
            return None
        planned = self.inputs[self.codes[declared.input.topic]]
        codec = self.codec(declared.input.record, repr(declared.input))
        return ForgettingPlan(declared, planned[codec.header], f"service {self.name!r}")

    def _unavailable(self, declared: Input[Any]) -> UnavailableColumns:
        return UnavailableColumns(self.codec(declared.record, repr(declared)).record, declared)

    def _kept_columns(self) -> Map[KeptColumns]:
        if KEPT_COLUMNS in self.service.states:
            self.service.fail(f"{KEPT_COLUMNS} is the platform's state for change events.", "rename yours.")
        return Map(self.name, KEPT_COLUMNS, KeptColumns, None)

    def _early_replies(self) -> Map[EarlyReply]:
        if EARLY_REPLIES in self.service.states and self.service.lookups:
            self.service.fail(f"{EARLY_REPLIES} is the platform's state for lookups.", "rename yours.")
        return Map(self.name, EARLY_REPLIES, EarlyReply, EARLY_REPLY_TTL_MS)

    def _seen(self, topic: str, within_ms: int) -> SeenKind:
        """The kind of the topic's seen ids. All types of the topic share it."""
        prefix = layout.prefix_of(layout.SEEN, topic)
        seen_kind = self.by_prefix.get(prefix)
        if not isinstance(seen_kind, SeenKind):
            seen_kind = SeenKind(prefix, topic, within_ms, header_of(SEEN_RECORD))
            self.by_prefix[prefix] = seen_kind
        if seen_kind.ttl_ms != within_ms:
            self.service.fail(f"input {topic!r}: its types have different within_ms.", "use the same for all of them.")
        return seen_kind

    # State

    def _kind(self, state: Value[Any] | Map[Any]) -> RecordKind:
        codec = self.codec(state.record, repr(state))
        ttl_ms = NO_TTL if state.ttl_ms is None else self.duration(state.ttl_ms, f"{state!r}, ttl_ms")
        keeps_times, kept_header = state.ttl_ms is not None, header_of(kept_record(codec.record))
        if isinstance(state, Map):
            prefix = layout.prefix_of(layout.ENTRY, state.name)
            return self._with_earlier(RecordKind(prefix, state.name, ttl_ms, codec, kept_header, keeps_times, None))
        cls = state.record.__name__
        if not codec.record.has_defaults():
            missing = ", ".join([f.name for f in codec.record.fields if f.default is None])
            self.service.fail(f"{state!r}: {cls} has no default for {missing}.", "give each of its fields a default.")
        if state.record.__dataclass_params__.frozen:
            self.service.fail(
                f"{state!r}: {cls} is frozen, so no step could change it.", "use @dataclass without frozen=True."
            )
        prefix = layout.prefix_of(layout.VALUE, state.name)
        kind = RecordKind(prefix, state.name, ttl_ms, codec, kept_header, keeps_times, state.record)
        return self._with_earlier(kind)

    def _with_earlier(self, kind: RecordKind) -> RecordKind:
        current = kind.codec.record
        for header, version in self._earlier(current).items():
            kind.earlier_records[header] = version.read
            kind.add_version(header, header_of(kept_record(version.record)), version.read)
        return kind

    def _earlier(self, record: Record, lossy: bool = False) -> dict[bytes, Earlier]:
        namespace, style = self.service.namespace, self.service.wire
        return earlier_versions(record, namespace, self._released(record), style=style, lossy=lossy)

    def _released(self, record: Record) -> list[Mapping[str, Any]]:
        return [s for s in self.released if f"{s.get('namespace', '')}.{s['name']}" == record.name]

    def _handler(self, source: Input[Any] | Timer | MapTimer[Any], handler: Handler) -> HandlerPlan:
        states, waits = [], []
        for state in handler.states:
            if isinstance(state, WaitsFor):
                waits.append(self._wait(state, source, handler))
                state = state.of
            if isinstance(state, DeclaredTable):
                states.append(StatePlan(self.kinds[state.name], not state.local, None, self.tables[state.name]))
                continue
            ids_of = None
            if isinstance(state, MapAt):
                if not isinstance(source, Input):
                    self.service.fail(
                        f"{handler.name}: at({state.ids!r}) needs an event, but {source!r} has none.",
                        "pass the map itself.",
                    )
                ids_of = self._ids_of(state.ids, source)
            states.append(StatePlan(self.kinds[state.name], not isinstance(state, Value), ids_of))
        return HandlerPlan(handler.name, handler.function, states, waits)

    def _fast_path(self, declared: Input[Any], fast: DeclaredFastPath) -> None:
        handler = self.handlers[declared]
        planned = self.inputs[self.codes[declared.topic]][self.codecs[declared.record].header]
        if handler.waits or planned.rows is not None or any(state.table is not None for state in handler.states):
            self.service.fail(f"fast_path: {declared!r} needs rows of tables.", "leave out the fast path.")
        output = self.outputs[fast.output]
        planned.fast = FastPathPlan(fast.path(output.codec.header), output)

    def _wait(self, wait: WaitsFor, source: Any, handler: Handler) -> WaitPlan:
        if not isinstance(source, Input) or not source.ordered or source.table is not None:
            self.service.fail(
                f"{handler.name}: wait_for({wait.of.name}, {wait.path!r}) needs events in the total order, found "
                f"{source!r}.",
                "pass the table itself.",
            )
        record = self.codec(source.record, repr(source)).record
        key_of = path_of(record, wait.path, self._where(source), "wait_for")[0]
        return WaitPlan(self.tables[wait.of.name], key_of, wait.wait_ms)

    def _ids_of(self, ids: str | Callable[[Any], list[str]], source: Input[Any]) -> Callable[[Any], Any]:
        if callable(ids):
            return ids
        record = self.codec(source.record, repr(source)).record
        return path_of(record, ids, self._where(source), "at")[0]

    def _table(self, table: DeclaredTable[Any]) -> TablePlan:
        codec, changes = self.codec(table.record, repr(table)), self.codec(table.input.record, repr(table))
        return TablePlan(self.service, table, self.codes[table.topic], codec, changes, self.kinds[table.name])

    def _timer(self, timer: Timer | MapTimer[Any]) -> None:
        handler = self.handlers.get(timer)
        if handler is None:
            self.service.fail(
                f"{timer!r}: no function runs when it is due.", f"put @service.on({timer.name}) before a function."
            )
        kind = TimerKind(layout.prefix_of(layout.TIMER, timer.name), timer.name, header_of(TIMER_RECORD))
        map_kind = self.kinds[timer.of.name] if isinstance(timer, MapTimer) else None
        planned = TimerPlan(kind, handler, map_kind)
        self.timers[timer] = planned
        self.timer_of[kind.prefix] = planned
        self.by_prefix[kind.prefix] = kind

    def _check_indices(self) -> None:
        for index in self.service.indices.values():
            table = self.service.tables.get(index.of.name)
            own = self.service.states.get(index.of.name) if table is None else table.state
            if own is not index.of:
                self.service.fail(
                    f"{index!r}: {index.of!r} is not a state of this service.", "pass one of its own states."
                )
            self.kinds[index.of.name].indices.append(index)
