"""A plain service's entries for the platform (`moneystate.ports.state.StateModel`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from moneystate.api import layout
from moneystate.api.cells import NEVER, NO_TTL, Cell, RecordKind, SeenKind, TimerKind
from moneystate.api.plan import Plan
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.items import Item
from moneystate.engine.plan import STATE_VERSION
from moneystate.ports.state import ENGINE_SCHEMAS, USERS, Fact, Field, Pair, Row, Versions, time_text

NAMES: Final = {layout.VALUE: "value", layout.ENTRY: "map entry", layout.TIMER: "timer", layout.SEEN: "seen id"}


class PlainState:
    """Of the service MODULE:NAME, which is how Spark's tasks find it."""

    kinds = layout.KINDS
    titles: Mapping[str, str] = {"entries": "entries"}

    def __init__(self, service: str) -> None:
        self.service = service

    @property
    def topics(self) -> Mapping[int, str]:
        return plan_of(self.service).topics

    @property
    def versions(self) -> Versions:
        headers = {kind.header for kind in plan_of(self.service).by_prefix.values()}
        return Versions({STATE_VERSION: [*ENGINE_SCHEMAS, *sorted(headers)]})

    def owner_of(self, key: bytes) -> bytes | None:
        place = layout.place_of(key)
        return None if place is None or _kind(plan_of(self.service), place) is None else place.owner

    def counts_owner(self, key: bytes) -> bool:
        return key.startswith(layout.VALUE)

    def facts(self, key: bytes, value: bytes, watermark: int, rules: Mapping[str, Any]) -> Iterator[Fact]:
        place, cell = _opened(self._plan(rules), key, value)
        if not _is_over(cell, watermark):
            id = (place.name.encode(), place.id)
            yield Fact(USERS, NAMES[place.kind], place.owner, id, _content(cell))

    def held_since(self, key: bytes, value: bytes) -> int | None:
        return None

    def view(self, entries: Iterable[Pair], watermark: int, rules: Mapping[str, Any]) -> Row:
        return {"entries": [_row(*_opened(self._plan(rules), *entry), watermark) for entry in entries]}

    def event_view(self, value: bytes) -> Any:
        codecs = [inp.codec for found in plan_of(self.service).inputs.values() for inp in found.values()]
        for codec in codecs:
            if value.startswith(codec.header):
                return json.loads(codec.to_json(codec.decode(value)))
        raise Malformed(f"no input takes an event of the schema {value[2:HEADER_BYTES].hex()}")

    def timer_view(self, item: Item) -> str:
        prefix, id = layout.parts_of_timer(item[8])
        kind = plan_of(self.service).by_prefix.get(prefix)
        name = prefix[2:].decode("ascii", "replace") if kind is None else kind.name
        return f"{name} {id.decode('utf-8', 'replace')}".strip()

    def _plan(self, rules: Mapping[str, Any]) -> Plan:
        """A time to live may be a rule."""
        return plan_of(
            self.service, tuple(sorted((n, v) for n, v in rules.items() if isinstance(v, int | str | float)))
        )


@lru_cache(maxsize=16)
def plan_of(path: str, rules: tuple[tuple[str, Any], ...] = ()) -> Plan:
    """The service at MODULE:NAME, by rules as a savepoint keeps them."""
    module, _, name = path.partition(":")
    service = getattr(import_module(module), name)
    mine = {f.name for f in fields(service.rules)} if service.rules is not None else set()
    given = {n: v for n, v in rules if n in mine}
    return Plan(service, replace(service.rules, **given) if given else None)


def _kind(plan: Plan, place: layout.Place) -> RecordKind | SeenKind | TimerKind | None:
    return plan.by_prefix.get(layout.prefix_of(place.kind, place.name))


def _opened(plan: Plan, key: bytes, value: bytes) -> tuple[layout.Place, Cell]:
    place = layout.place_of(key)
    kind = None if place is None else _kind(plan, place)
    if place is None or kind is None:
        raise Malformed(f"an entry with the key {key!r} is none of this service")
    cell = Cell(key, kind, place.owner, place.id)
    cell.load(value)
    cell.wake()
    return place, cell


def _is_over(cell: Cell, watermark: int) -> bool:
    return cell.kind.ttl_ms != NO_TTL and cell.at != NEVER and watermark >= cell.at + cell.kind.ttl_ms


def _content(cell: Cell) -> tuple[Field, ...]:
    """A record as the current schema has it; of a timer when it is due; of a seen id when it was seen."""
    if isinstance(cell.kind, RecordKind):
        return (cell.at if cell.kind.ttl_ms else None, cell.kind.codec.encode(cell.value))
    if isinstance(cell.kind, SeenKind):
        return (cell.at,)
    due: int = cell.value[0]
    return (due,)


def _row(place: layout.Place, cell: Cell, watermark: int) -> Row:
    shown: Any = None
    if isinstance(cell.kind, RecordKind):
        shown = json.loads(cell.kind.codec.to_json(cell.value))
    elif not isinstance(cell.kind, SeenKind):
        shown = time_text(cell.value[0])
    id = place.id.decode("utf-8", "replace")
    row = {"kind": NAMES[place.kind], "name": place.name, "id": id or None, "value": shown}
    return {**row, "since": None if cell.at == NEVER else time_text(cell.at), "over": _is_over(cell, watermark)}
