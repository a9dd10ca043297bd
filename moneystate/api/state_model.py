"""A plain service's entries for the platform (`moneystate.ports.state.StateModel`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, Final

from moneystate.api import layout
from moneystate.api.cells import NEVER, NO_TTL, Cell, RecordKind, SeenKind
from moneystate.api.layout import Place
from moneystate.api.plan import Plan
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.items import Item
from moneystate.engine.plan import STATE_VERSION
from moneystate.ports.state import ENGINE_SCHEMAS, USERS, Fact, Pair, Row, Versions

_NAMES: Final = {layout.VALUE: "value", layout.ENTRY: "map", layout.TIMER: "timer", layout.SEEN: "seen"}
TIMERS: Final = "timers"
SEEN_IDS: Final = "seen"


class ServiceState:
    """`where`: MODULE:NAME of the service, so that it can be pickled into Spark's tasks; `rules`: of the run, None for
    those that the service is declared with; `codes`: of topics, as they were first assigned."""

    def __init__(self, where: str, rules: Any = None, codes: Mapping[str, int] | None = None) -> None:
        self.where = where
        self.rules = rules
        self.codes = codes

    def __reduce__(self) -> tuple[Any, ...]:
        return ServiceState, (self.where, self.rules, self.codes)

    @cached_property
    def plan(self) -> Plan:
        module, _, name = self.where.partition(":")
        return Plan(getattr(import_module(module), name), self.rules, self.codes)

    @property
    def kinds(self) -> bytes:
        return layout.KINDS

    @property
    def topics(self) -> Mapping[int, str]:
        return self.plan.topics

    @property
    def titles(self) -> Mapping[str, str]:
        return {name: name for name in [*self.plan.kinds, TIMERS, SEEN_IDS]}

    @property
    def versions(self) -> Versions:
        headers = {kind.header for kind in self.plan.by_prefix.values()}
        return Versions({STATE_VERSION: [*ENGINE_SCHEMAS, *sorted(headers)]})

    def owner_of(self, key: bytes) -> bytes | None:
        """None for an entry of a state that the service does not declare, too: nobody could say what it means."""
        place = layout.place_of(key)
        return place.owner if place is not None and self._declares(place) else None

    def _declares(self, place: Place) -> bool:
        return layout.prefix_of(place.kind, place.name) in self.plan.by_prefix

    def counts_owner(self, key: bytes) -> bool:
        return key.startswith(layout.VALUE)

    def facts(self, key: bytes, value: bytes, watermark: int, rules: Mapping[str, Any]) -> Iterator[Fact]:
        """An entry is one fact. When it is to be swept is none."""
        place, cell = self._open(key, value)
        if _expired(cell, watermark):
            return
        at = cell.at if cell.at != NEVER else None
        if isinstance(cell.kind, RecordKind):
            content: tuple[bytes | int | None, ...] = (at, cell.kind.codec.write_body(cell.value))
        elif isinstance(cell.kind, SeenKind):
            content = (at,)
        else:
            content = (value[HEADER_BYTES:],)
        yield Fact(USERS, f"{_NAMES[place.kind]} {place.name}", place.owner, (place.id,), content)

    def _open(self, key: bytes, value: bytes) -> tuple[Place, Cell]:
        place = layout.place_of(key)
        if place is None or not self._declares(place):
            raise Malformed(f"an entry with the key {key!r}, which the service does not declare")
        cell = Cell(key, self.plan.by_prefix[layout.prefix_of(place.kind, place.name)], place.owner, place.id)
        cell.load(value)
        cell.wake()
        return place, cell

    def held_since(self, key: bytes, value: bytes) -> int | None:
        return None

    def view(self, entries: Iterable[Pair], watermark: int, rules: Mapping[str, Any]) -> Row:
        """By the names of values and maps, then timers and seen ids."""
        values: Row = {name: [] for name in self.titles}
        for key, value in sorted(entries):
            place, cell = self._open(key, value)
            if _expired(cell, watermark):
                continue
            id = {"id": place.id.decode()} if place.id else {}
            if isinstance(cell.kind, RecordKind):
                row = json.loads(cell.kind.codec.to_json(cell.value))
                row.pop("type", None)
                values[place.name].append({**id, **row})
            elif isinstance(cell.kind, SeenKind):
                values[SEEN_IDS].append({"topic": place.name, **id, "at": cell.at})
            else:
                values[TIMERS].append({"name": place.name, **id, "due": cell.value[0]})
        return values

    def event_view(self, value: bytes) -> Any:
        header = value[:HEADER_BYTES]
        for inputs in self.plan.inputs.values():
            if header in inputs:
                codec = inputs[header].codec
                return json.loads(codec.to_json(codec.decode(value)))
        raise Malformed("an event of a type that the service does not declare")

    def timer_view(self, item: Item) -> str:
        prefix, id = layout.parts_of_timer(item[8])
        title = "timer" if prefix in self.plan.timer_of else "removal of"
        return " ".join([title, prefix[2:].decode(), id.decode()]).strip()


def _expired(cell: Cell, watermark: int) -> bool:
    return cell.kind.ttl_ms != NO_TTL and cell.at != NEVER and watermark >= cell.at + cell.kind.ttl_ms
