"""The declarations of a service. `moneystate.runtime.plan` checks and compiles them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar, overload

from moneystate.api.fast_path import DeclaredFastPath, FastPath
from moneystate.api.forgetting import FORGOTTEN, Forgetting, Forgotten
from moneystate.api.handles import (
    NO_LIMIT,
    AnyIndex,
    Duration,
    Index,
    Input,
    Map,
    MapAt,
    MapIndex,
    MapTimer,
    Output,
    Reads,
    Source,
    Timer,
    Value,
)
from moneystate.api.lookup import DeclaresLookups, Lookup
from moneystate.api.message import Message
from moneystate.api.on import On
from moneystate.api.step_checks import check_parameters, check_rules, check_signature, check_types
from moneystate.api.table import Table
from moneystate.api.tables import READY, TABLE_LOADED, DeclaredTable, KeepRow, TableChanges, TableIndex, TakeEffect
from moneystate.api.view import View
from moneystate.api.waits import HELD_EVENTS, WaitsFor
from moneystate.engine.inputs import is_pattern
from moneystate.errors import ServiceError
from moneystate.records.platform_records import HeldEvents
from moneystate.records.reading import Key, Time
from moneystate.records.shapes import CAMEL, STYLES
from moneystate.records.types import Arrival, Unavailable

R = TypeVar("R")
E = TypeVar("E")
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_PATTERN: Final = re.compile(r"[A-Za-z0-9._*-]{1,200}")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
LOGGED_COLUMNS: Final = Unavailable()
DEBEZIUM: Final = "debezium"
FORMATS: Final = ("avro", "json", "confluent", DEBEZIUM)


def _released(ctx: Any) -> None:
    raise AssertionError("held events are released by the runtime")


class Handler:
    """A function of the service, with the states that it receives."""

    def __init__(self, function: Callable[..., None], states: tuple[Any, ...]) -> None:
        self.function = function
        self.states = states
        self.name: str = function.__name__


class Service(On[R], DeclaresLookups):
    """A service: the inputs, outputs, state, rules and steps that are declared on it."""

    @overload
    def __init__(self: Service[None], name: str, *, namespace: str = "", wire: str = CAMEL) -> None: ...
    @overload
    def __init__(self, name: str, rules: R, *, namespace: str = "", wire: str = CAMEL) -> None: ...
    def __init__(self, name: str, rules: Any = None, *, namespace: str = "", wire: str = CAMEL) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,62}", name):
            raise ServiceError(f"service {name!r}: invalid name.", "use a to z, 0 to 9 and -, at most 63 characters.")
        self.name = name  # also the prefix of its state topics
        self.namespace = namespace or name.replace("-", "_")  # of its records
        self.wire = wire  # the style of field names in JSON and Avro: `camel` or `snake`
        self.rules: R = rules  # a frozen dataclass (`moneystate.api.rules`); fields of simple types are flags of `run`
        self.inputs: list[Input[Any]] = []
        self.outputs: list[Output[Any]] = []
        self.states: dict[str, Value[Any] | Map[Any]] = {}
        self.tables: dict[str, DeclaredTable[Any]] = {}
        self.timers: dict[str, Timer | MapTimer[Any]] = {}
        self.lookups = {}
        self.held: Value[HeldEvents] | None = None  # the events of a key that wait for rows; None: no function waits
        self.held_timer = Timer(name, HELD_EVENTS)
        self.forgetting_declared: Forgetting | None = None  # see `forgetting`
        self.indices: dict[str, AnyIndex[Any, Any]] = {}
        self.queries: dict[str, Callable[..., Any]] = {}
        self.personal_queries: dict[str, bool | None] = {}  # by name: what `query` was given as `personal`
        self.handlers: list[tuple[Input[Any] | Timer | MapTimer[Any], Handler]] = []
        self.fast_paths: dict[Input[Any], DeclaredFastPath] = {}
        self.holds = 0  # see `holding`; 0: not declared
        self.unfit: ServiceError | None = None  # see `refuse_start`
        if wire not in STYLES:
            self.fail(f"wire={wire!r}.", f"use one of {', '.join(STYLES)}.")
        check_rules(self.fail, rules)

    def forgetting(self, input: Input[Any], *, id: str, by: str) -> Value[Forgotten]:
        """Declares the input whose records ask to forget their key, so that `State.Forget` of the query server can
        write one. Its function calls `ctx.forget()`. Returns the state with the proof, which stays.

        `id`, `by`: the fields with the id of the request, and with who asks."""
        if self.forgetting_declared is not None:
            self.fail("forgetting: declared twice.", "declare one input for requests to forget.")
        self._check_own(input, "forgetting")
        proof = self.value(FORGOTTEN, Forgotten)
        self.forgetting_declared = Forgetting(input, id, by, proof)
        return proof

    def holding(self, events: int) -> None:
        """Declares that an output record or state entry may be as large as this many events together. The service's
        topics are created for records of that size, and each start checks them."""
        self.holds = events

    def input(
        self, topic: str, record: type[E], *, key: Key | None = None, time: Time | None = None,
        unique: str | None = None, within_ms: Duration = NO_LIMIT, bound_ms: Duration | None = None,
        max_future_ms: Duration | None = None, rank: int | None = None, ordered: bool = True, timed: bool = False,
        format: str = "avro", decode: Callable[[Message], E | None] | None = None,
        fallback: Callable[[Message], E | None] | None = None, unavailable: Unavailable = LOGGED_COLUMNS,
        partitions: int | None = None,
    ) -> Input[E]:  # fmt: skip
        """Declares records of one type in a topic. A topic with several types needs an input for each.

        - `topic`: its name, or a topic pattern such as `orders-*`, which reads every topic of such a name.
        - `key`: how to read the key. Without it, the records only advance time.
        - `time`: how to read the event time. `ms.arrival`: the input is in arrival order.
        - `unique`: a field. Of several records of the topic with the same key and the same value in this field, only
          the first within `within_ms` is processed.
        - `bound_ms`: how far the topic's records may be out of order. None: the run's bound; in arrival order 0, which
          needs a topic with the broker's timestamps.
        - `max_future_ms`: how far event times may be ahead of Kafka timestamps. None: the run's limit.
        - `rank`: the order of inputs at the same time. None: the order of their declarations.
        - `ordered`: False: the input takes no part in the watermark (`docs/glossary.md`, unordered input).
        - `timed`: the topic is a timed output of another service. Its records carry their times.
        - `decode`: a function that makes the record from a Kafka record, instead of `format`. It returns None if the
          record does not belong to this input. It raises ValueError for a dead letter.
        - `fallback`: the same, for records that do not decode. If it returns None, the record is a dead letter.
        - `unavailable`: what happens to columns that a change event does not have (`format="debezium"`).
        - `partitions`: how many the topic must have. A start checks it, and a new topic gets them. None: any number.
        """
        where = f"input {topic!r}"
        self._check_topic(topic, where, format, _PATTERN)
        if is_pattern(topic) and (timed or not ordered):
            self.fail(
                f"{where}: a topic pattern with timed=True or ordered=False.",
                "declare such topics one by one, by their names.",
            )
        if timed and (time, bound_ms, max_future_ms) != (None, None, None):
            self.fail(f"{where}: timed=True with a time or limits.", "remove them: the records carry their times.")
        if time is None and not timed:
            self.fail(f"{where}: expected time=, found none.", "name a field as time=.")
        if isinstance(time, Arrival) and (max_future_ms is not None or not ordered):
            self.fail(
                f"{where}: time=ms.arrival with max_future_ms or ordered=False.",
                "remove them: the time of arrival is never ahead, and orders the records.",
            )
        if unique is not None and within_ms == NO_LIMIT:
            self.fail(
                f"{where}: unique={unique!r} without within_ms.", "say for how long, for example within_ms=86_400_000."
            )
        if unique is None and within_ms != NO_LIMIT:
            self.fail(
                f"{where}: within_ms without unique.", "name the field with the id as unique=, or remove within_ms."
            )
        if partitions is not None and partitions < 1:
            self.fail(f"{where}: partitions={partitions}.", "give 1 or more, or leave it out.")
        if unique is not None and key is None:
            self.fail(f"{where}: unique={unique!r} without key.", "name a field as key=.")
        if any(i.topic == topic and i.record is record for i in self.inputs):
            self.fail(f"{where}: declared twice with {record.__name__}.", "declare it once.")
        other = next((i.format for i in self.inputs if i.topic == topic and i.format != format), None)
        if other is not None:
            self.fail(f"{where}: declared with format={other!r} and {format!r}.", "use one format for the topic.")
        for argument, function in (("decode", decode), ("fallback", fallback)):
            if function is not None:
                check_signature(self.fail, function, ["message"], f"{where}: {argument}=")
        declared = Input(
            self.name, topic, record, key, time, unique, within_ms, bound_ms, max_future_ms, rank, ordered, timed,
            format, decode, fallback, unavailable, partitions,
        )  # fmt: skip
        self.inputs.append(declared)
        self._check_timed(where)
        return declared

    def output(
        self, topic: str, record: type[T], *, key: Key, compacted: bool = False, timed: bool = False,
        partitions: int | None = None, keep_ms: int = NO_LIMIT, format: str = "avro", record_time: str | None = None,
    ) -> Output[T]:  # fmt: skip
        """Declares records of one type in a topic that the service writes. A topic with several types needs an output
        for each.

        - `key`: how to read the record's key.
        - `compacted`: the topic keeps only the last record of a key.
        - `keep_ms`: a new compacted topic also deletes records with an older Kafka timestamp.
        - `record_time`: a field with the time that becomes the Kafka timestamp. None: the time of the writing.
        - `timed`: other services can read the topic in this service's order, as a timed stream.
        - `partitions`: how many a new topic gets. None: the run's default.
        """
        where = f"output {topic!r}"
        self._check_topic(topic, where, format)
        if key is None:
            self.fail(f"{where}: expected a key, found key=None.", "name a field as key=.")
        if format == "debezium":
            self.fail(f"{where}: format='debezium' is for inputs.", "use json.")
        if timed and compacted:
            self.fail(f"{where}: timed and compacted.", "remove one: compaction deletes records that a reader needs.")
        if keep_ms != NO_LIMIT and (not compacted or type(keep_ms) is not int or keep_ms < 0):
            self.fail(
                f"{where}: expected compacted=True and keep_ms in ms, found {compacted} and {keep_ms!r}.",
                "give a whole number, for a compacted topic.",
            )
        if any(o.topic == topic and o.record is record for o in self.outputs):
            self.fail(f"{where}: declared twice with {record.__name__}.", "declare it once.")
        declared = Output(self.name, topic, record, key, compacted, timed, partitions, format, keep_ms, record_time)
        if any(o.topic == topic and o.of_topic() != declared.of_topic() for o in self.outputs):
            self.fail(
                f"{where}: declared with different formats, partitions, compacted, keep_ms or timed.",
                "use the same for the topic.",
            )
        self.outputs.append(declared)
        self._check_timed(where)
        return declared

    def table(
        self, topic: str, record: type[S], *, key: str | tuple[str, ...] | None = None, valid_from: str | None = None,
        history_ms: int = NO_LIMIT, local: bool = False, ready: str = TABLE_LOADED, compacted: bool = False,
        bound_ms: Duration | None = None, format: str = "json", name: str = "",
        decode: Callable[[Message], S | None] | None = None,
    ) -> DeclaredTable[S]:  # fmt: skip
        """Declares reference data. A record in the topic replaces the row of its key, a tombstone removes it.

        - `key`: the fields with the key. None: the record's Kafka key, as text.
        - `valid_from`: a field with the time from which the row holds, if that is after the row was written.
        - `history_ms`: how far back `Table.get(key, at=...)` finds rows that held.
        - `local`: a step reads only the row of its own key. Otherwise it reads the row of any key.
        - `ready`: `loaded`: other inputs are read once each partition of the topic has a TableLoaded, and the rows
          before that hold from the beginning of time. `immediately`: each row holds from when it was written.
        - `compacted`: accepts a topic with cleanup.policy=compact, from which a replay cannot read rows as they were.
        - `bound_ms`: as for an input in arrival order.
        - `name`: of the state with the rows. Default: the topic's name, with _ for characters that a name cannot have.
        - `decode`: a function that makes the row from a Kafka record, instead of `format`, as for an input.
        """
        where = f"table {topic!r}"
        self._check_topic(topic, where, format)
        self._check_decode(where, format, decode)
        if ready not in READY:
            self.fail(f"{where}: ready={ready!r}.", f"use {' or '.join(map(repr, READY))}.")
        if compacted and ready == TABLE_LOADED:
            self.fail(
                f"{where}: compacted=True with ready='loaded': a compacted topic takes no record without a key, and "
                "TableLoaded has none.",
                "declare ready='immediately'.",
            )
        if type(history_ms) is not int or history_ms < 0:
            self.fail(f"{where}: expected history_ms in ms, found {history_ms!r}.", "give a whole number.")
        if any(i.topic == topic for i in self.inputs):
            self.fail(f"{where}: the topic is also an input.", "declare it once.")
        others = {**self.states, **self.timers, **self.tables}
        name = self._new(name or _NOT_OF_NAMES.sub("_", topic).lower(), others, "table")
        declared = DeclaredTable(
            self.name, name, topic, record, key, valid_from, history_ms, local, ready, compacted, format, bound_ms,
            decode,
        )  # fmt: skip
        self.tables[declared.name] = declared
        self.inputs.append(declared.input)
        self.handlers.append((declared.input, Handler(KeepRow(declared), (declared.state,))))
        return declared

    def _check_decode(self, where: str, format: str, decode: Callable[[Message], Any] | None) -> None:
        if decode is None:
            return
        if format == DEBEZIUM:
            self.fail(f"{where}: decode= with format='debezium'.", "remove one: change events have more than a row.")
        check_signature(self.fail, decode, ["message"], f"{where}: decode=")

    def wait_for(self, table: DeclaredTable[S], path: str, wait_ms: int) -> Reads[Table[S]]:
        """A table for a function of an input: an event whose row does not hold yet is held for up to `wait_ms` by
        event time, and then processed without it. Later events of its key wait behind it. `path`: of the event's field
        with the row's key; an event without one does not wait."""
        self._check_own(table, "wait_for")
        if type(wait_ms) is not int or wait_ms <= 0:
            self.fail(f"wait_for({table!r}): expected a number of ms, found {wait_ms!r}.", "give 1 or more.")
        if self.held is None:
            self.held = Value(self.name, HELD_EVENTS, HeldEvents, None)
            self.timers[HELD_EVENTS] = self.held_timer
            self.handlers.append((self.held_timer, Handler(_released, ())))
        return WaitsFor(table, path, wait_ms)

    def value(self, name: str, record: type[S], *, ttl_ms: Duration | None = None) -> Value[S]:
        """Declares state with one record for each key. A new key has `record()`. A value that equals `record()` is not
        stored. With `ttl_ms`, a value expires this long after its last change. A function of the rules may return 0:
        then it does not expire."""
        declared = Value(
            self.name,
            self._new(name, {**self.states, **self.tables}, "value"),
            record,
            self._ttl(f"value {name!r}", ttl_ms),
        )
        self.states[name] = declared
        return declared

    def map(self, name: str, record: type[S], *, ttl_ms: Duration | None = None) -> Map[S]:
        """Declares state with many records for each key, by id. With `ttl_ms`, an entry expires this long after its
        last change. A function of the rules may return 0: then it does not expire."""
        declared = Map(
            self.name,
            self._new(name, {**self.states, **self.tables}, "map"),
            record,
            self._ttl(f"map {name!r}", ttl_ms),
        )
        self.states[name] = declared
        return declared

    @overload
    def timer(self, name: str) -> Timer: ...
    @overload
    def timer(self, name: str, of: Map[S]) -> MapTimer[S]: ...
    def timer(self, name: str, of: Map[Any] | None = None) -> Timer | MapTimer[Any]:
        """Declares a timer for each key, or, with `of`, for each id of a map."""
        self._new(name, {**self.timers, **self.tables}, "timer")
        declared = Timer(self.name, name) if of is None else MapTimer(self.name, name, of)
        self.timers[name] = declared
        return declared

    @overload
    def index(
        self, name: str, of: Value[S], by: Callable[[S], list[V] | None], *, personal: bool | None = None
    ) -> Index[S, V]: ...
    @overload
    def index(
        self, name: str, of: Value[S], by: Callable[[S], V | None], *, personal: bool | None = None
    ) -> Index[S, V]: ...
    @overload
    def index(
        self, name: str, of: Map[S], by: Callable[[S], list[V] | None], *, personal: bool | None = None
    ) -> MapIndex[S, V]: ...
    @overload
    def index(
        self, name: str, of: Map[S], by: Callable[[S], V | None], *, personal: bool | None = None
    ) -> MapIndex[S, V]: ...
    @overload
    def index(self, name: str, of: DeclaredTable[S], by: Callable[[S], list[V] | None]) -> TableIndex[S, V]: ...
    @overload
    def index(self, name: str, of: DeclaredTable[S], by: Callable[[S], V | None]) -> TableIndex[S, V]: ...
    def index(
        self,
        name: str,
        of: Value[Any] | Map[Any] | DeclaredTable[Any],
        by: Callable[[Any], Any],
        *,
        personal: bool | None = None,
    ) -> Any:
        """Declares an index for queries. It finds the keys of a value, or the entries of a map, by the result of `by`.
        An index of a table finds rows (`Table.find`).

        `by` returns a string, a whole number or a tuple of these. A list of them adds the record under each. None
        leaves the record out. The index sorts by value (numbers by size, strings by code point, tuples part by part),
        then by key, then by id.

        `personal`: True: callers of the query server need the scope `state.read.personal`; False: they do not. By
        default they need it unless it is proven that the values have nothing of a personal field."""
        if isinstance(of, DeclaredTable):
            return self._table_index(name, of, by)
        self._new(name, self.indices, "index")
        if not isinstance(of, (Value, Map)):
            self.fail(
                f"index {name!r}: expected a value or a map, found {of!r}.",
                "pass an object that value() or map() returned.",
            )
        declared: AnyIndex[Any, Any]
        declared = Index(self.name, name, of, by) if isinstance(of, Value) else MapIndex(self.name, name, of, by)
        declared.personal = personal
        self.indices[name] = declared
        return declared

    def _table_index(self, name: str, of: DeclaredTable[Any], by: Callable[[Any], Any]) -> TableIndex[Any, Any]:
        self._check_own(of, f"index {name!r}")
        if of.local:
            self.fail(f"index {name!r}: {of!r} is local, so a step reads one row of it.", "read that row.")
        name = self._new(name, self.indices, "index")
        declared: TableIndex[Any, Any] = TableIndex(self.name, name, of, by)
        of.indices.append(declared)
        self.indices[name] = declared.entries
        return declared

    @overload
    def query(
        self, function: Callable[Concatenate[View, P], T], /, *, personal: bool | None = None
    ) -> Callable[Concatenate[View, P], T]: ...
    @overload
    def query(self, /, *, personal: bool) -> Callable[[F], F]: ...
    def query(self, function: Any = None, /, *, personal: bool | None = None) -> Any:
        """Declares a call of the query server (`State.Call`, `moneystate ask`). The function takes a view and its own
        arguments, and its result must depend only on these. The query server accepts arguments and results of the types
        that record fields can have.

        `@service.query(personal=...)`: as for an index. By default callers need the scope `state.read.personal` unless
        it is proven that only marked fields of the result have personal data, which are masked."""
        if function is None:
            return lambda declared: self.query(declared, personal=personal)
        name = self._new(function.__name__, self.queries, "query")
        self.queries[name], self.personal_queries[name] = function, personal
        return function

    def refuse_start(self, problem: str, do: str) -> None:
        """Refuses to run the service with its configuration. Commands that only read its declarations, such as
        `schemas`, still work."""
        self.unfit = ServiceError(f"service {self.name!r}: {problem}", do)

    def fail(self, problem: str, do: str) -> NoReturn:
        raise ServiceError(f"service {self.name!r}: {problem}", do)

    def _ttl(self, where: str, ttl_ms: Duration | None) -> Duration | None:
        if ttl_ms is not None and not callable(ttl_ms) and ttl_ms == NO_LIMIT:
            self.fail(
                f"{where}: expected a ttl_ms of 1 or more, found 0.", "leave ttl_ms out if entries should not expire."
            )
        return ttl_ms

    def _new(self, name: str, declared: dict[str, Any], kind: str) -> str:
        if not _NAME.fullmatch(name):
            self.fail(f"{kind} {name!r}: invalid name.", "use a to z, 0 to 9 and _, at most 63 characters.")
        if name in declared:
            self.fail(f"{kind} {name!r}: declared twice.", "rename one.")
        return name

    def _check_topic(self, topic: str, where: str, format: str, names: re.Pattern[str] = _TOPIC) -> None:
        if not names.fullmatch(topic):
            self.fail(f"{where}: invalid name of a topic.", "use letters, digits, '.', '_' and '-'.")
        if format not in FORMATS:
            self.fail(f"{where}: format={format!r}.", f"use one of {', '.join(FORMATS)}.")

    def _check_timed(self, where: str) -> None:
        """Checks the rules of timed streams. Effects of unordered inputs have no order time. A service cannot read its
        own timed stream, because its own effects come later in its order."""
        written = {o.topic for o in self.outputs if o.timed}
        if written & {i.topic for i in self.inputs if i.timed}:
            self.fail(f"{where}: the service reads its own timed stream.", "read it as an ordinary input, with time=.")
        unordered = [i for i in self.inputs if not i.ordered]
        if unordered and (written or any(i.timed for i in unordered)):
            self.fail(
                f"{where}: a timed stream beside the unordered {unordered[0]!r}, whose records have no order time.",
                "remove timed, or ordered=False.",
            )

    def fast_path(self, source: Source[Any], output: Output[Any], path: Callable[[bytes], FastPath]) -> None:
        """Lets code answer events of `source` from their bytes, beside the function that runs on them. Where it
        declines, and where the output is JSON, the function runs. `path`: makes it, from the header of the output's
        records."""
        self._check_own(output, "fast_path")
        if output.timed or output.record_time is not None:
            self.fail(f"fast_path: {output!r} has times of its own.", "emit to another output.")
        for one in source.inputs:
            self._check_own(one, "fast_path")
            if self._function_on(one) is None:
                self.fail(f"fast_path: no function runs on {one!r}.", "put @service.on(...) before one, above.")
            self.fast_paths[one] = DeclaredFastPath(path, output)

    def _function_on(self, source: Any) -> str | None:
        return next((handler.name for handled, handler in self.handlers if handled is source), None)

    def _register(self, source: Any, states: tuple[Any, ...], function: Callable[..., None]) -> None:
        name = getattr(function, "__name__", repr(function))
        if isinstance(source, TableChanges):
            self._register_changes(source.of, states, function, name)
            return
        lookup = source if isinstance(source, Lookup) else None
        source = source if lookup is None else lookup.replies
        sources = source.inputs if isinstance(source, Source) else [source]
        for one in sources:
            if not isinstance(one, (Input, Timer, MapTimer)):
                self.fail(
                    f"{name}: on({one!r}): expected an input, a timer or a lookup.",
                    "pass an object that input(), timer() or lookup() returned.",
                )
            self._check_own(one, name)
            other = self._function_on(one)
            if other is not None:
                self.fail(f"{one!r} has two functions, {other} and {name}.", "put both into one function.")
            self.handlers.append((one, Handler(function, states)))
        self._check_states(states, name)
        check_parameters(self.fail, sources[0], states, function, name, lookup)
        check_types(self.fail, sources, function, name)

    def _register_changes(
        self, table: DeclaredTable[Any], states: tuple[Any, ...], function: Callable[..., None], name: str
    ) -> None:
        self._check_own(table, name)
        if states and not table.local:
            self.fail(
                f"{name}: {table!r} is not local, so its rows belong to no key that has state.",
                "declare it with local=True, or let the function take no state.",
            )
        if table.has_positions:
            self.fail(f"{name}: {table!r} can be truncated, which tells no row.", "read the topic as an input.")
        if table.on_change is not None:
            self.fail(f"{table._changed!r} have two functions.", "put both into one function.")
        self._check_states(states, name)
        check_signature(self.fail, function, ["ctx", table.record.__name__, *[state.name for state in states]], name)
        table.on_change, table.on_change_states = function, states
        with_rows = (table.state, *states)
        keeps = next(n for n, (source, _) in enumerate(self.handlers) if source is table.input)
        self.handlers[keeps] = table.input, Handler(KeepRow(table), with_rows)
        self.timers[table.name] = table.timer
        self.handlers.append((table.timer, Handler(TakeEffect(table), with_rows)))

    def _check_states(self, states: tuple[Any, ...], name: str) -> None:
        for state in states:
            if not isinstance(state, (Value, Map, MapAt, DeclaredTable, WaitsFor)):
                self.fail(
                    f"{name}: expected a state, found {state!r}.",
                    "pass an object that value(), map() or table() returned.",
                )
            self._check_own(state, name)

    def _check_own(self, handle: Any, name: str) -> None:
        if handle.service != self.name:
            self.fail(f"{name}: {handle!r} belongs to the service {handle.service!r}.", "declare one on this service.")
