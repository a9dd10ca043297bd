"""Computes the keys of an item: `[pair, source, id]` for each pair in which its store and role take part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring as quote
from typing import NamedTuple

from moneystate.engine.avro import Malformed
from moneystate.runtime.layout import MAX_ID_BYTES
from services.reconciliation.config import Pair
from services.reconciliation.records import InventoryItem

NO_PAIR = ""


def key_text(pair: str, source: str, id: str) -> str:
    """A compact JSON array."""
    return f"[{quote(pair)},{quote(source)},{quote(id)}]"


def interval_key(pair: str, start: int | str) -> str:
    """A compact JSON array."""
    return f"[{quote(pair)},{start if isinstance(start, int) else quote(start)}]"


class Part(NamedTuple):
    """The part that items of a store and role have in a pair. `prefix`: of the keys of this pair alone."""

    prefix: str
    pair: Pair
    is_expected: bool


Parts = Mapping[tuple[str, str], Sequence[Part]]  # by store and role


def parts_of(pairs: Sequence[Pair]) -> Parts:
    parts: dict[tuple[str, str], list[Part]] = defaultdict(list)
    for pair in pairs:
        prefix = f"[{quote(pair.name)},"
        parts[pair.expected.store, pair.expected.role].append(Part(prefix, pair, True))
        parts[pair.actual.store, pair.actual.role].append(Part(prefix, pair, False))
    return dict(parts)


def keys_of(parts: Parts) -> Callable[[InventoryItem], list[str]]:
    """A function from an item to its keys. One of no pair has the key of the pair `NO_PAIR`, where it is counted."""

    def keys(item: InventoryItem) -> list[str]:
        mine = parts.get((item.store, item.role))
        if mine is None:
            return [key_text(NO_PAIR, item.source, item.event_id)]
        own = f"{quote(item.source)},{quote(item.event_id)}]"
        if item.derived_from is None:
            return [part.prefix + own for part in mine]
        return [part.prefix + (own if part.is_expected else _origin(item, item.derived_from)) for part in mine]

    return keys


def part_in(parts: Parts, item: InventoryItem, key: str) -> Part | None:
    """The part that an item has in the pair of a key; None in one that is not configured."""
    for part in parts.get((item.store, item.role), ()):
        if key.startswith(part.prefix):
            return part
    return None


def _origin(item: InventoryItem, derived_from: str) -> str:
    """The end of the key of an actual item that was split from another."""
    if len(own_id(item).encode()) > MAX_ID_BYTES:
        raise Malformed(f"source and eventId of more than {MAX_ID_BYTES:,} bytes")
    source = item.source if item.derived_from_source is None else item.derived_from_source
    return f"{quote(source)},{quote(derived_from)}]"


def own_id(item: InventoryItem) -> str:
    """Tells the actual items of a key apart."""
    return f"{len(item.source)}:{item.source}:{item.event_id}"
