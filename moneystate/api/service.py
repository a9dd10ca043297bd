"""The declarations of a service. `moneystate.api.plan` checks and compiles them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar, get_type_hints, overload

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
    Source,
    Timer,
    Value,
)
from moneystate.api.message import Message
from moneystate.api.on import On
from moneystate.api.reading import Key, Time
from moneystate.api.rules import problem_of
from moneystate.api.view import View
from moneystate.errors import ServiceError

R = TypeVar("R")
E = TypeVar("E")
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")
P = ParamSpec("P")

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
FORMATS: Final = ("avro", "json", "confluent", "debezium")


class Handler:
    """A function of the service with what it runs on and what it reads."""

    def __init__(self, function: Callable[..., None], states: tuple[Any, ...]) -> None:
        self.function = function
        self.states = states
        self.name = function.__name__


class Service(On[R]):
    """A service: the inputs, outputs, state, rules and steps that are declared on it."""

    @overload
    def __init__(self: Service[None], name: str, *, namespace: str = "") -> None: ...
    @overload
    def __init__(self, name: str, rules: R, *, namespace: str = "") -> None: ...
    def __init__(self, name: str, rules: Any = None, *, namespace: str = "") -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,62}", name):
            raise ServiceError(f"service {name!r}: no name for a service.", "use a to z, 0 to 9 and -.")
        self.name = name  # of the service; its records and the topics of its state are named after it
        self.namespace = namespace or name.replace("-", "_")  # of its records; by default the service's name
        self.rules: R = rules  # a frozen dataclass of numbers, texts and truth values; each is a flag of `run`
        self.inputs: list[Input[Any]] = []
        self.outputs: list[Output[Any]] = []
        self.states: dict[str, Value[Any] | Map[Any]] = {}
        self.timers: dict[str, Timer | MapTimer[Any]] = {}
        self.indices: dict[str, AnyIndex[Any, Any]] = {}
        self.queries: dict[str, Callable[..., Any]] = {}
        self.handlers: list[tuple[Input[Any] | Timer | MapTimer[Any], Handler]] = []
        self.holds = 0
        self.unfit: ServiceError | None = None
        _check_rules(self, rules)

    def holding(self, events: int) -> None:
        """An output record or an entry of state may hold as much as so many events, such as the parts of a whole. Its
        topics are then created for records of that size, and a start checks them."""
        self.holds = events

    def input(
        self, topic: str, record: type[E], *, key: Key | None = None, time: Time | None = None,
        unique: str | None = None, within_ms: Duration = NO_LIMIT, bound_ms: Duration | None = None,
        max_future_ms: Duration | None = None, rank: int | None = None, ordered: bool = True, timed: bool = False,
        format: str = "avro", decode: Callable[[Message], E | None] | None = None,
        fallback: Callable[[Message], E | None] | None = None,
    ) -> Input[E]:  # fmt: skip
        """Records of one type in a topic; a topic of several types has an input for each. Without `key` they only
        advance time. `unique`: a field; of the records of a topic and key with one content of it within `within_ms`
        only the first counts. `bound_ms`: how far the topic's records may be out of order; `max_future_ms`: how far
        ahead of their Kafka timestamps they may be; None: what the run says. `rank`: the order of inputs at the same
        time, else that of the declarations. `timed`: the topic is another service's timed output, and its records carry
        their times. `decode`: makes the record from a Kafka record, in place of `format`; None: it belongs to another
        input of the topic, or to none. `fallback`: the same for a record that does not decode; None: it stays a dead
        letter. A ValueError of either is a dead letter."""
        where = f"input {topic!r}"
        self._check_topic(topic, where, format)
        if timed and (time, bound_ms, max_future_ms) != (None, None, None):
            self.fail(f"{where}: timed=True with a time or limits.", "leave them out: its records carry their times.")
        if time is None and not timed:
            self.fail(f"{where}: no time.", "name a field as time=.")
        if unique is not None and within_ms == NO_LIMIT:
            self.fail(f"{where}: unique={unique!r} without within_ms.", "say for how long, within_ms=86_400_000.")
        if unique is not None and key is None:
            self.fail(f"{where}: unique={unique!r} without key.", "say whose the records are, key=...")
        if any(i.topic == topic and i.record is record for i in self.inputs):
            self.fail(f"{where}: declared twice with {record.__name__}.", "declare it once.")
        other = next((i.format for i in self.inputs if i.topic == topic and i.format != format), None)
        if other is not None:
            self.fail(f"{where}: declared with format={other!r} and {format!r}.", "give one for the topic.")
        for argument, function in (("decode", decode), ("fallback", fallback)):
            if function is not None:
                self._check_takes(function, ["message"], f"{where}: {argument}=")
        made = Input(
            self.name, topic, record, key, time, unique, within_ms, bound_ms, max_future_ms, rank, ordered, timed,
            format, decode, fallback,
        )  # fmt: skip
        self.inputs.append(made)
        self._check_timed(where)
        return made

    def output(
        self, topic: str, record: type[T], *, key: Key, compacted: bool = False, timed: bool = False,
        partitions: int | None = None, format: str = "avro",
    ) -> Output[T]:  # fmt: skip
        """Records of one type in a topic to write, keyed by `key`. A topic of several types has an output for each; a
        function of `key` finds records of all of them together."""
        where = f"output {topic!r}"
        self._check_topic(topic, where, format)
        if key is None:
            self.fail(f"{where}: key=None: nobody could say which records belong together.", "name a field as key=.")
        if format == "debezium":
            self.fail(f"{where}: format='debezium' is for inputs.", "use json.")
        if timed and compacted:
            self.fail(f"{where}: timed and compacted.", "leave one out: compaction takes records that a reader needs.")
        if any(o.topic == topic and o.record is record for o in self.outputs):
            self.fail(f"{where}: declared twice with {record.__name__}.", "declare it once.")
        made = Output(self.name, topic, record, key, compacted, timed, partitions, format)
        if any(o.topic == topic and o.of_topic() != made.of_topic() for o in self.outputs):
            self.fail(
                f"{where}: declared with different formats, partitions, compacted or timed.", "give one for the topic."
            )
        self.outputs.append(made)
        self._check_timed(where)
        return made

    def value(self, name: str, record: type[S], *, ttl_ms: Duration = NO_LIMIT) -> Value[S]:
        """State: one record for each key. Before it is first changed it is `record()`, and one that equals `record()`
        takes no room. `ttl_ms` after its last change it is forgotten."""
        made = Value(self.name, self._new(name, self.states, "value"), record, ttl_ms)
        self.states[name] = made
        return made

    def map(self, name: str, record: type[S], *, ttl_ms: Duration = NO_LIMIT) -> Map[S]:
        """State: many records for each key, each by an id of its own. `ttl_ms` after its last change an entry is
        forgotten."""
        made = Map(self.name, self._new(name, self.states, "map"), record, ttl_ms)
        self.states[name] = made
        return made

    @overload
    def timer(self, name: str) -> Timer: ...
    @overload
    def timer(self, name: str, of: Map[S]) -> MapTimer[S]: ...
    def timer(self, name: str, of: Map[Any] | None = None) -> Timer | MapTimer[Any]:
        """One for each key, or for each id `of` a map."""
        self._new(name, self.timers, "timer")
        made = Timer(self.name, name) if of is None else MapTimer(self.name, name, of)
        self.timers[name] = made
        return made

    @overload
    def index(self, name: str, of: Value[S], by: Callable[[S], list[V] | None]) -> Index[S, V]: ...
    @overload
    def index(self, name: str, of: Value[S], by: Callable[[S], V | None]) -> Index[S, V]: ...
    @overload
    def index(self, name: str, of: Map[S], by: Callable[[S], list[V] | None]) -> MapIndex[S, V]: ...
    @overload
    def index(self, name: str, of: Map[S], by: Callable[[S], V | None]) -> MapIndex[S, V]: ...
    def index(self, name: str, of: Value[Any] | Map[Any], by: Callable[[Any], Any]) -> Any:
        """For queries: keys by what `by` says of their value, or entries of a map. `by` gives a text, a whole number or
        a tuple of these; a list of them for a record that is found by each; None for one that is not found. The order
        of the index is that of the values: numbers by size, texts by code point, tuples part by part; then that of the
        keys, and of the ids."""
        self._new(name, self.indices, "index")
        if not isinstance(of, (Value, Map)):
            self.fail(f"index {name!r}: {of!r} is no value and no map.", "pass what value() or map() gave.")
        made: AnyIndex[Any, Any]
        made = Index(self.name, name, of, by) if isinstance(of, Value) else MapIndex(self.name, name, of, by)
        self.indices[name] = made
        return made

    def query(self, function: Callable[Concatenate[View, P], T]) -> Callable[Concatenate[View, P], T]:
        """A call of the query server (`State.Call`, `moneystate ask`): a function of a view, and of arguments of its
        own. It must depend on these alone. To be served, arguments and result need types that a record can have."""
        self.queries[self._new(function.__name__, self.queries, "query")] = function
        return function

    def refuse_start(self, problem: str, do: str) -> None:
        """It is not to be run as it is configured. What only reads its declarations, such as `schemas`, goes on."""
        self.unfit = ServiceError(f"service {self.name!r}: {problem}", do)

    def fail(self, problem: str, do: str) -> NoReturn:
        raise ServiceError(f"service {self.name!r}: {problem}", do)

    def _new(self, name: str, of: dict[str, Any], kind: str) -> str:
        if not _NAME.fullmatch(name):
            self.fail(f"{kind} {name!r}: no name for it.", "use a to z, 0 to 9 and _, at most 63 of them.")
        if name in of:
            self.fail(f"{kind} {name!r}: declared twice.", "rename one.")
        return name

    def _check_topic(self, topic: str, where: str, format: str) -> None:
        if not _TOPIC.fullmatch(topic):
            self.fail(f"{where}: no name for a topic.", "use letters, digits, '.', '_' and '-'.")
        if format not in FORMATS:
            self.fail(f"{where}: format={format!r}.", f"use one of {', '.join(FORMATS)}.")

    def _check_timed(self, where: str) -> None:
        """Effects of unordered inputs have no order time, and what a service caused is not before it in its order."""
        written = {o.topic for o in self.outputs if o.timed}
        if written & {i.topic for i in self.inputs if i.timed}:
            self.fail(f"{where}: the service reads its own timed stream.", "read it as an ordinary input, with time=.")
        unordered = [i for i in self.inputs if not i.ordered]
        if unordered and (written or any(i.timed for i in unordered)):
            self.fail(
                f"{where}: a timed stream beside the unordered {unordered[0]!r}, whose records have no order time.",
                "leave timed out, or ordered=False.",
            )

    def _register(self, source: Any, states: tuple[Any, ...], function: Callable[..., None]) -> None:
        name = getattr(function, "__name__", repr(function))
        sources = source.inputs if isinstance(source, Source) else [source]
        for one in sources:
            if not isinstance(one, (Input, Timer, MapTimer)):
                self.fail(f"{name}: on({one!r}) is no input and no timer.", "pass what input() or timer() gave.")
            self._check_mine(one, name)
            taken = next((handler.name for mine, handler in self.handlers if mine is one), None)
            if taken is not None:
                self.fail(f"{one!r} has two functions, {taken} and {name}.", "put both into one function.")
            self.handlers.append((one, Handler(function, states)))
        for state in states:
            if not isinstance(state, (Value, Map, MapAt)):
                self.fail(f"{name}: {state!r} is no state.", "pass what value() or map() gave.")
            self._check_mine(state, name)
        self._check_parameters(sources[0], states, function, name)
        self._check_types(sources, function, name)

    def _check_mine(self, handle: Any, name: str) -> None:
        if handle.service != self.name:
            self.fail(f"{name}: {handle!r} belongs to the service {handle.service!r}.", "declare one of this service.")

    def _check_parameters(self, source: Any, states: tuple[Any, ...], function: Any, name: str) -> None:
        takes = ["ctx"]
        if isinstance(source, Input):
            takes.append(source.record.__name__)
        elif isinstance(source, MapTimer):
            takes.append("id")
        takes.extend([state.name for state in states])
        self._check_takes(function, takes, name)

    def _check_types(self, sources: list[Any], function: Any, name: str) -> None:
        """As far as the function says them: mypy finds more."""
        try:
            hints = get_type_hints(function)
        except (AttributeError, NameError, TypeError):
            return  # names that only a type checker has
        if hints.pop("return", None) not in (None, type(None)):
            self.fail(f"{name}: a step returns nothing.", "write ctx.emit(output, record), and -> None.")
        taken: list[Any] = [hints.get(parameter) for parameter in inspect.signature(function).parameters]
        taken += [None, None]  # one that takes *args
        records = [source.record for source in sources if isinstance(source, Input)]
        if _is_record(taken[0]):
            self.fail(f"{name}: its first parameter is the context, found {taken[0].__name__}.", "take ctx first.")
        if records and _is_record(taken[1]) and taken[1] not in records:
            shown = " | ".join(record.__name__ for record in records)
            self.fail(f"{name}: expected {shown} as its event, found {taken[1].__name__}.", f"take (ctx, {shown}).")

    def _check_takes(self, function: Any, takes: list[str], name: str) -> None:
        if inspect.iscoroutinefunction(function):
            self.fail(f"{name}: a step cannot be async: it does no I/O.", "use def; ask others by a topic.")
        if inspect.isgeneratorfunction(function):
            self.fail(f"{name}: a step cannot yield.", "write ctx.emit(output, record).")
        if not callable(function):
            self.fail(f"{name}{function!r} is no function.", f"take ({', '.join(takes)}).")
        try:
            inspect.signature(function).bind(*takes)
        except TypeError as e:
            self.fail(f"{name}{inspect.signature(function)}: {e}.", f"take ({', '.join(takes)}).")
        except ValueError:
            return  # compiled: it has no signature


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _check_rules(service: Service[Any], rules: Any) -> None:
    if rules is None:
        return
    problem = problem_of(rules)
    if problem or not is_dataclass(rules):
        service.fail(
            f"rules: {problem or f'{type(rules).__name__} is no dataclass'}.",
            "use frozen dataclasses of numbers, texts, truth values, tuples and dicts.",
        )
