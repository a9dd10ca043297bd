"""States of users as the changelog's entries, made with the codecs of the enrichment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moneystate.api.forgetting import FORGOTTEN, Forgotten
from moneystate.replica.transaction_assembler import change_of
from moneystate.runtime import layout
from moneystate.runtime.cells import Cell, Kind
from moneystate.runtime.replica_model import ReplicaModel
from moneystate.runtime.seen_page import NO_IDS, SeenIds, pack_id
from services.enrichment import records
from services.enrichment.service import Rules
from tests.enrichment.jobs import SERVICE
from tests.enrichment.topics import NAMES, USER_EVENTS, WALLET_EVENTS

Entries = dict[bytes, bytes]

MODEL = ReplicaModel(SERVICE)
TTL_MS = Rules().session_ttl_ms
LOOKUP = "session_lookup"


def entry_of(key: bytes) -> tuple[bytes, bytes]:
    """Owner and entry of a changelog key, as the replica's rows have them."""
    change = change_of(key, None, MODEL)
    return change.owner, change.entry


@dataclass(frozen=True)
class Money:
    """Money that waits."""

    id: str
    session: str  # the one that it waits for
    number: int  # of the money that has waited
    order_time_ms: int
    asked: bool = False  # it has been sent to lookup


@dataclass(frozen=True)
class State:
    """The state of a user."""

    country: str | None = None
    birth_year: str | None = None
    sessions: tuple[tuple[str, int], ...] = ()  # id, expires in ms
    seen: tuple[tuple[str, int], ...] = ()  # money id, time in ms
    money: tuple[Money, ...] = ()


def entries(user: bytes, state: State | None) -> Entries:
    if state is None:
        return {}
    info = records.UserInfo(state.birth_year, state.country)
    made = {_entry("user", user, "", records.User(info, [], len(state.money)))}
    for id, expires in state.sessions:
        made.add(_entry("sessions", user, id, records.Session("FR", expires, id), expires - TTL_MS, expires))
    for money in state.money:
        held = _waiting(user, money, info)
        if money.asked:
            made.add(_entry(LOOKUP, user, f"{money.id} {money.number}", _asked(user, money, held)))
        else:
            made.add(_entry("waiting", user, f"{money.session}\0{money.number:012}", held))
    if state.seen:
        made.add(_seen(user, state.seen))
    return dict(made)


def key_of(name: str, user: bytes, id: str = "") -> bytes:
    return layout.entry_key(MODEL.plan.kinds[name].prefix, user, id.encode())


def _entry(name: str, user: bytes, id: str, value: Any, at_ms: int = 0, sweep_ms: int = 0) -> tuple[bytes, bytes]:
    return _encoded(MODEL.plan.kinds[name], key_of(name, user, id), value, at_ms, sweep_ms)


def _encoded(kind: Kind, key: bytes, value: Any, at_ms: int = 0, sweep_ms: int = 0) -> tuple[bytes, bytes]:
    cell = Cell(key, kind, b"", b"")
    cell.value, cell.changed_at, cell.sweep_at = value, at_ms, sweep_ms
    stored = cell.encoded()
    assert stored is not None
    return key, stored


def _waiting(user: bytes, money: Money, info: records.UserInfo) -> records.Waiting:
    content = records.Money(
        money.id, user.decode(), money.session, money.order_time_ms, b"\x7d", "EUR", b"", "CARD", False
    )
    return records.Waiting(content, info, True, money.order_time_ms)


def _asked(user: bytes, money: Money, held: records.Waiting) -> Any:
    request = records.SessionLookupRequested(
        money.id, user.decode(), money.session, money.order_time_ms + 5, "SESSION_MISSING"
    )
    return MODEL.plan.kinds[LOOKUP].codec.record.cls(request, held)


def _seen(user: bytes, seen: tuple[tuple[str, int], ...]) -> tuple[bytes, bytes]:
    ids = SeenIds(0, 0, NO_IDS)
    for id, seen_at in sorted(seen, key=lambda one: one[1]):
        ids = ids.with_id(pack_id(id.encode()), seen_at)
    prefix = layout.prefix_of(layout.SEEN, NAMES[WALLET_EVENTS])
    kind = MODEL.plan.kind_at(prefix)
    assert kind is not None
    return _encoded(kind, layout.entry_key(prefix, user), ids)


def forgotten(user: bytes, request: str, at_ms: int) -> Entries:
    proof = Forgotten(at_ms, request, "operator", NAMES[USER_EVENTS], 0, 99)
    return dict([_entry(FORGOTTEN, user, "", proof)])


def changes(before: Entries, after: Entries) -> list[tuple[bytes, bytes | None]]:
    """As the operator puts them out."""
    put: list[tuple[bytes, bytes | None]] = [(k, v) for k, v in after.items() if before.get(k) != v]
    return put + [(k, None) for k in before if k not in after]
