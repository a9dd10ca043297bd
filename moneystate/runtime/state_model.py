"""A service's entries for the platform (`moneystate.ports.state.StateModel`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from moneystate.engine.avro import HEADER_BYTES, MAGIC, Malformed, read_long
from moneystate.engine.items import VALUE, Item
from moneystate.engine.place import own_value
from moneystate.ports.state import ENGINE_SCHEMAS, KEYS, NAMED_TIMERS, Fact, Migration, Pair, Row, Versions, time_text
from moneystate.records import exact_json
from moneystate.records.type_names import has_type_field
from moneystate.runtime import layout
from moneystate.runtime.cells import DUE, NEVER, NO_TTL, Cell, RecordKind, decode_entry
from moneystate.runtime.layout import Place
from moneystate.runtime.plan import Plan
from moneystate.runtime.plans import plan_as_run, plan_of
from moneystate.runtime.seen_page import SeenKind, id_text

_NAMES: Final = {layout.VALUE: "value", layout.ENTRY: "map", layout.TIMER: "timer", layout.SEEN: "seen"}
SEEN_IDS: Final = "seen-ids"  # no state can have such a name


class ServiceState:
    """The state model of a service."""

    def __init__(self, reference: str, codes: Mapping[str, int] | None = None) -> None:
        self.reference = reference  # and not a plan, so that this object can be pickled into Spark's tasks
        self.codes = codes  # the topics' numbers in the state; None: no saved numbers
        self.as_run: tuple[Mapping[str, Any], Plan] | None = None  # the plan with the rules that were last asked for

    def __reduce__(self) -> tuple[Any, ...]:
        return ServiceState, (self.reference, self.codes)

    @cached_property
    def plan(self) -> Plan:
        return plan_of(self.reference, tuple(sorted((self.codes or {}).items())))

    def plan_at(self, rules: Mapping[str, Any]) -> Plan:
        """The plan with the rules of a run: they decide what has expired."""
        if self.as_run is None or self.as_run[0] is not rules:
            topics = {} if self.codes is None else {"topics": self.codes}
            self.as_run = rules, plan_as_run(self.reference, {**rules, **topics})
        return self.as_run[1]

    @property
    def kinds(self) -> bytes:
        return layout.KINDS

    @property
    def topics(self) -> Mapping[int, str]:
        return self.plan.topics

    @property
    def versions(self) -> Versions:
        headers = {kind.header for kind in self.plan.by_prefix.values()}
        up = {header: migration(kind) for kind in self.plan.kinds.values() for header in kind.earlier}
        return Versions([*ENGINE_SCHEMAS, *sorted(headers)], up)

    def owner_of(self, key: bytes) -> bytes | None:
        """The key that an entry belongs to. None also for a state that the service does not declare: its content is
        unknown."""
        place = layout.place_of(key)
        return place.owner if place is not None and self._declares(place) else None

    def _declares(self, place: Place) -> bool:
        return self.plan.kind_at(layout.prefix_of(place.kind, place.name)) is not None

    def counts_owner(self, key: bytes) -> bool:
        return key.startswith(layout.VALUE)

    def facts(self, key: bytes, value: bytes, watermark: int, rules: Mapping[str, Any]) -> Iterator[Fact]:
        """Each entry is one fact, and so is each id that `unique` has seen. The time of the next sweep is left out,
        because it does not affect results."""
        place, cell = self._open(key, value, rules)
        title = f"{_NAMES[place.kind]} {place.name}"
        if isinstance(cell.kind, SeenKind):
            for at, id in _seen(cell, watermark):
                yield Fact(KEYS, title, place.owner, (id.encode(),), (at,))
            return
        if cell.has_expired(watermark):
            return
        counts = cell.kind.expires() and cell.changed_at != NEVER  # without a TTL, the time has no effect
        changed_at = cell.changed_at if counts else None
        if isinstance(cell.kind, RecordKind):
            content: tuple[bytes | int | None, ...] = (changed_at, cell.kind.codec.write_body(cell.value))
        else:
            content = (value[HEADER_BYTES:],)
        yield Fact(KEYS, title, place.owner, (place.id,), content)

    def records(
        self, entries: Iterable[Pair], watermark: int, rules: Mapping[str, Any]
    ) -> Iterator[tuple[str, str, str, str]]:
        """The values and the entries of maps that have not expired: the state's name, the key, the id and the record
        as JSON. Raises Malformed."""
        for key, value in entries:
            if key[:1] not in (layout.VALUE, layout.ENTRY):
                continue
            place, cell = self._open(key, value, rules)
            if isinstance(cell.kind, RecordKind) and not cell.has_expired(watermark):
                content = cell.kind.codec.to_json(cell.value).decode()
                yield place.name, place.owner.decode(), place.id.decode(), content

    def _open(self, key: bytes, value: bytes, rules: Mapping[str, Any]) -> tuple[Place, Cell]:
        place, kind = layout.place_of(key), self.plan_at(rules).kind_of(key)
        if place is None or kind is None:
            raise Malformed(f"the service does not declare the entry with the key {key!r}")
        return place, decode_entry(kind, value, place.owner, place.id)

    def _has_id(self, place: Place) -> bool:
        """Whether the entry has an id. An id may be empty."""
        if place.kind == layout.TIMER:
            timer = self.plan.timer_of.get(layout.prefix_of(place.kind, place.name))
            return bool(place.id) if timer is None else timer.map_kind is not None
        return place.kind != layout.VALUE

    def held_since(self, key: bytes, value: bytes) -> int | None:
        """An open lookup holds since its request. Raises Malformed."""
        place = layout.place_of(key)
        return None if place is None else self.plan.asked_at(place, value)

    def view(self, entries: Iterable[Pair], watermark: int, rules: Mapping[str, Any]) -> Row:
        """Values and maps by name, then timers and seen ids."""
        values: Row = {name: [] for name in [*self.plan.kinds, NAMED_TIMERS, SEEN_IDS]}
        for key, value in sorted(entries):
            place, cell = self._open(key, value, rules)
            if cell.has_expired(watermark):
                continue
            id = {"id": place.id.decode()} if self._has_id(place) else {}
            if isinstance(cell.kind, RecordKind):
                row = exact_json.loads(cell.kind.codec.to_json(cell.value))
                if not has_type_field(cell.kind.codec.record):
                    del row["type"]
                values[place.name].append({**id, **row})
            elif isinstance(cell.kind, SeenKind):
                values[SEEN_IDS].extend(
                    [{"topic": place.name, "id": seen, "at": at} for at, seen in _seen(cell, watermark)]
                )
            else:
                values[NAMED_TIMERS].append({"name": place.name, **id, "due": cell.value[DUE]})
        return values

    def event_view(self, value: bytes) -> Any:
        header = value[:HEADER_BYTES]
        for inputs in self.plan.inputs.values():
            if header in inputs:
                codec = inputs[header].codec
                return exact_json.loads(codec.to_json(codec.decode(value)))
        for earlier in self.plan.earlier_inputs.values():
            if header in earlier:
                record, _ = earlier[header].read(value, HEADER_BYTES)
                return exact_json.loads(earlier[header].input.codec.to_json(record))
        return {"undeclared": header[len(MAGIC) :].hex()}

    def fact_view(self, kind: str, content: tuple[Any, ...]) -> Row | None:
        part, _, name = kind.partition(" ")
        if kind == "buffered":
            return {"event": self.event_view(own_value(content[1]))}
        if part in ("value", "map"):
            codec = self.plan.kinds[name].codec
            row: Row = exact_json.loads(codec.to_json(codec.read_own_body(content[1], 0)[0]))
            if not has_type_field(codec.record):
                del row["type"]
            return row if content[0] is None else {**row, "(changed at)": time_text(content[0])}
        if part == "timer":
            return {"due": time_text(read_long(content[0], 0)[0])}
        return {"seen at": time_text(content[0])} if part == "seen" and content[0] is not None else None

    def timer_view(self, item: Item) -> str:
        prefix, id = layout.parts_of_timer(own_value(item[VALUE]))
        title = "timer" if prefix[:1] == layout.TIMER else "removal of"
        return " ".join([title, prefix[2:].decode(), id.decode()]).strip()


def _seen(cell: Cell, watermark: int) -> list[tuple[int, str]]:
    """The times and ids of an entry of `unique` that have not expired."""
    ttl_ms = cell.kind.ttl_ms
    items = [] if cell.value is None else cell.value.items()
    return [(at, id_text(id)) for at, id in items if ttl_ms == NO_TTL or watermark < at + ttl_ms]


def migration(kind: RecordKind) -> Migration:
    """A function from an entry of an earlier version to the current version."""

    def migrate(stored: bytes) -> bytes:
        encoded = decode_entry(kind, stored).encoded()
        # an entry that equals the default is normally not stored, but a migration must not remove it
        return stored if encoded is None else encoded

    return migrate
