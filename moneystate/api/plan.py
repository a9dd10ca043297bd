"""A service checked and made ready to run: codecs, kinds of entries, the numbers of topics and streams.

Everything that is wrong with a declaration is found here or when it is declared, as a ServiceError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moneystate.api import layout
from moneystate.api.cells import NO_TTL, RecordKind, SeenKind, TimerKind
from moneystate.api.codec import Codec
from moneystate.api.handles import Input, Map, MapAt, MapTimer, Output, Timer, Value
from moneystate.api.platform_records import HEARTBEAT_RECORD, LINEAGE_RECORD, SEEN_RECORD, TIMER_RECORD, kept_record
from moneystate.api.reading import KeyReader, path_of, time_reader
from moneystate.api.schema import header_of
from moneystate.api.service import Handler, Service
from moneystate.api.shapes import Plain, Shapes, Symbols
from moneystate.engine.processor import InputTopic

MOST_RANKS: Final = 8
IDS: Final = ("string", "long")


class StatePlan:
    """A state that a function reads. `id_of`: of a map, what gives the id of the entry to read with the batch."""

    def __init__(self, kind: RecordKind, is_map: bool, id_of: Callable[[Any], Any] | None) -> None:
        self.kind = kind
        self.is_map = is_map
        self.id_of = id_of


class HandlerPlan:
    def __init__(self, name: str, function: Callable[..., None], states: list[StatePlan]) -> None:
        self.name = name
        self.function = function
        self.states = states


class InputPlan:
    def __init__(self, input: Input[Any], code: int, codec: Codec, keys: KeyReader | None, where: str) -> None:
        self.code = code
        self.topic = input.topic
        self.ordered = input.ordered
        self.codec = codec
        self.keys = keys
        self.time = time_reader(codec.record, input.time, where)
        self.seen: SeenKind | None = None
        self.seen_id: Callable[[Any], Any] | None = None
        self.handler: HandlerPlan | None = None


class TimerPlan:
    """`of`: the map whose ids it is for."""

    def __init__(self, kind: TimerKind, handler: HandlerPlan, of: RecordKind | None) -> None:
        self.name = kind.name
        self.kind = kind
        self.handler = handler
        self.of = of


class OutputPlan:
    def __init__(self, output: Output[Any], stream: int, codec: Codec, keys: KeyReader) -> None:
        self.output = output
        self.stream = stream
        self.codec = codec
        self.cls = codec.record.cls
        self.keys = keys


def assign_codes(names: Iterable[str], saved: Mapping[str, int]) -> dict[str, int]:
    """The numbers that stand for topics in state: those that are kept, and the next ones in the order of the names."""
    codes = dict(saved)
    following = max(codes.values(), default=-1) + 1
    for name in sorted(set(names) - set(codes)):
        codes[name] = following
        following += 1
    return codes


class Plan:
    """`rules`: of the run, None for those of the declaration; `codes`: of topics, as they were first assigned."""

    def __init__(self, service: Service[Any], rules: Any = None, codes: Mapping[str, int] | None = None) -> None:
        self.service = service
        self.name = service.name
        self.rules = service.rules if rules is None else rules
        self.shapes = Shapes(service.namespace)
        self.codecs: dict[type, Codec] = {}
        topics = dict.fromkeys([i.topic for i in service.inputs])
        self.codes = assign_codes(topics, codes or {})
        self.topics = {code: topic for topic, code in self.codes.items()}
        self.kinds: dict[str, RecordKind] = {name: self._kind(state) for name, state in service.states.items()}
        self.by_prefix: dict[bytes, RecordKind | SeenKind | TimerKind] = {k.prefix: k for k in self.kinds.values()}
        self.handlers: dict[Any, HandlerPlan] = {}
        for source, handler in service.handlers:
            self.handlers[source] = self._handler(source, handler)
        self.inputs: dict[int, dict[bytes, InputPlan]] = {code: {} for code in self.topics}
        for declared in service.inputs:
            self._input(declared)
        self.timers: dict[Any, TimerPlan] = {}
        self.timer_of: dict[bytes, TimerPlan] = {}
        for timer in service.timers.values():
            self._timer(timer)
        self.outputs: dict[Any, OutputPlan] = {}
        for stream, output in enumerate(service.outputs):
            codec = self.codec(output.record, repr(output))
            keys = KeyReader(codec.record, output.key, self._where(output))
            self.outputs[output] = OutputPlan(output, stream, codec, keys)
        self.dead_letter_stream = len(service.outputs)
        self.heartbeat = Codec(HEARTBEAT_RECORD)
        self.lineage = header_of(LINEAGE_RECORD)
        self._check_indices()
        if not any(i.handler for by_header in self.inputs.values() for i in by_header.values()):
            service.fail("no function runs on any of its inputs.", "put @service.on(...) before one.")

    def _where(self, declared: object) -> str:
        return f"service {self.name!r}: {declared!r}"

    def codec(self, cls: type, where: str) -> Codec:
        if cls not in self.codecs:
            self.codecs[cls] = Codec(self.shapes.record(cls, f"service {self.name!r}: {where}"))
        return self.codecs[cls]

    def duration(self, given: int | Callable[[Any], int], where: str) -> int:
        duration_ms = given(self.rules) if callable(given) else given
        if type(duration_ms) is not int or duration_ms < 0:
            self.service.fail(f"{where}: expected a duration in ms, found {duration_ms!r}.", "give a whole number.")
        return duration_ms

    # Inputs

    def input_topics(self) -> list[InputTopic]:
        """As the engine takes them, by code."""
        topics = []
        for number, topic in enumerate(dict.fromkeys([i.topic for i in self.service.inputs])):
            declared = [i for i in self.service.inputs if i.topic == topic]
            ranks = {i.rank for i in declared}
            if len(ranks) > 1 or len({i.ordered for i in declared}) > 1:
                self.service.fail(
                    f"input {topic!r}: declared with different ranks or orders.", "give one for the topic."
                )
            given = ranks.pop()
            rank = min(number, MOST_RANKS - 1) if given is None else given
            if not 0 <= rank < MOST_RANKS:
                self.service.fail(f"input {topic!r}: rank={rank}.", f"give one from 0 to {MOST_RANKS - 1}.")
            topics.append(InputTopic(self.codes[topic], topic, declared[0].ordered, rank))
        return sorted(topics)

    def _input(self, declared: Input[Any]) -> None:
        where = self._where(declared)
        codec = self.codec(declared.record, repr(declared))
        keys = None if declared.key is None else KeyReader(codec.record, declared.key, where)
        made = InputPlan(declared, self.codes[declared.topic], codec, keys, where)
        made.handler = self.handlers.get(declared)
        if made.handler is not None and keys is None:
            self.service.fail(
                f"{declared!r}: without key, but {made.handler.name} runs on it.", "name a field as key=."
            )
        if declared.unique is not None:
            made.seen_id, shape = path_of(codec.record, declared.unique, where, "unique")
            if not isinstance(shape, Symbols) and shape not in (Plain("string"), Plain("long")):
                self.service.fail(
                    f"{declared!r}: unique={declared.unique!r} is no text or whole number.", "use another."
                )
            within_ms = self.duration(declared.within_ms, f"{declared!r}, within_ms")
            made.seen = self._seen(declared.topic, within_ms)
        self.inputs[made.code][codec.header] = made

    def _seen(self, topic: str, within_ms: int) -> SeenKind:
        """Ids are seen by topic: the first of any of its types counts."""
        prefix = layout.prefix_of(layout.SEEN, topic)
        seen_kind = self.by_prefix.get(prefix)
        if not isinstance(seen_kind, SeenKind):
            seen_kind = SeenKind(prefix, topic, within_ms, header_of(SEEN_RECORD))
            self.by_prefix[prefix] = seen_kind
        if seen_kind.ttl_ms != within_ms:
            self.service.fail(f"input {topic!r}: its types have different within_ms.", "give all of them the same.")
        return seen_kind

    # State

    def _kind(self, state: Value[Any] | Map[Any]) -> RecordKind:
        codec = self.codec(state.record, repr(state))
        ttl_ms = self.duration(state.ttl_ms, f"{state!r}, ttl_ms")
        kept_header = header_of(kept_record(codec.record)) if ttl_ms != NO_TTL else b""
        if isinstance(state, Map):
            return RecordKind(layout.prefix_of(layout.ENTRY, state.name), state.name, ttl_ms, codec, kept_header, None)
        cls = state.record.__name__
        if not codec.record.has_defaults():
            missing = ", ".join([f.name for f in codec.record.fields if f.default is None])
            self.service.fail(f"{state!r}: {cls} has no default for {missing}.", "give each field of it a default.")
        if state.record.__dataclass_params__.frozen:
            self.service.fail(f"{state!r}: {cls} is frozen, so no step could change it.", "use @dataclass without it.")
        prefix = layout.prefix_of(layout.VALUE, state.name)
        return RecordKind(prefix, state.name, ttl_ms, codec, kept_header, state.record)

    def _handler(self, source: Input[Any] | Timer | MapTimer[Any], handler: Handler) -> HandlerPlan:
        states = []
        for state in handler.states:
            id_of = None
            if isinstance(state, MapAt):
                if not isinstance(source, Input):
                    self.service.fail(f"{handler.name}: at({state.field!r}) of {source!r}.", "pass the map itself.")
                record = self.codec(source.record, repr(source)).record
                id_of, _ = path_of(record, state.field, self._where(source), "at")
            states.append(StatePlan(self.kinds[state.name], not isinstance(state, Value), id_of))
        return HandlerPlan(handler.name, handler.function, states)

    def _timer(self, timer: Timer | MapTimer[Any]) -> None:
        handler = self.handlers.get(timer)
        if handler is None:
            self.service.fail(
                f"{timer!r}: no function runs when it is due.", f"put @service.on({timer.name}) before one."
            )
        kind = TimerKind(layout.prefix_of(layout.TIMER, timer.name), timer.name, header_of(TIMER_RECORD))
        of = self.kinds[timer.of.name] if isinstance(timer, MapTimer) else None
        made = TimerPlan(kind, handler, of)
        self.timers[timer] = made
        self.timer_of[kind.prefix] = made
        self.by_prefix[kind.prefix] = kind

    def _check_indices(self) -> None:
        for index in self.service.indices.values():
            if self.service.states.get(index.of.name) is not index.of:
                self.service.fail(f"{index!r}: {index.of!r} is no value of this service.", "pass what value() gave.")
