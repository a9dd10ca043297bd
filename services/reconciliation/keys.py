"""Computes the keys of an item: `[pair, source, id]` for each pair in which its store and role take part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as quote

from moneystate.api.layout import MAX_ID_BYTES
from moneystate.engine.avro import Malformed
from services.reconciliation.config import Pair
from services.reconciliation.records import InventoryItem

NO_PAIR = ""


def key_text(pair: str, source: str, id: str) -> str:
    """A compact JSON array."""
    return f"[{quote(pair)},{quote(source)},{quote(id)}]"


def interval_key(pair: str, start: int | str) -> str:
    """A compact JSON array."""
    return f"[{quote(pair)},{start if isinstance(start, int) else quote(start)}]"


def keys_of(pairs: Sequence[Pair]) -> Callable[[InventoryItem], list[str]]:
    """A function from an item to its keys. One of no pair has the key of the pair `NO_PAIR`, where it is counted."""
    sides: dict[tuple[str, str], list[tuple[str, bool]]] = defaultdict(list)
    for pair in pairs:
        sides[pair.expected.store, pair.expected.role].append((pair.name, True))
        sides[pair.actual.store, pair.actual.role].append((pair.name, False))

    def keys(item: InventoryItem) -> list[str]:
        mine = sides.get((item.store, item.role), [(NO_PAIR, True)])
        return [key_text(pair, *_id_in(item, is_expected)) for pair, is_expected in mine]

    return keys


def _id_in(item: InventoryItem, is_expected: bool) -> tuple[str, str]:
    if is_expected or item.derived_from is None:
        return item.source, item.event_id
    if len(own_id(item).encode()) > MAX_ID_BYTES:
        raise Malformed(f"source and eventId of more than {MAX_ID_BYTES:,} bytes")
    assert item.derived_from_source is not None  # its record fills it in
    return item.derived_from_source, item.derived_from


def own_id(item: InventoryItem) -> str:
    """Tells the actual items of a key apart."""
    return f"{len(item.source)}:{item.source}:{item.event_id}"
