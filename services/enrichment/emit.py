"""The records that the enrichment writes: MoneyEnriched with its lineage, and SessionLookupRequested.

The lineage names the events that the money, the user info, the session and the reply come from. It is a Kafka header
(`avro/headers/Lineage.avsc`), so that the schema of the value does not change.
"""

from __future__ import annotations

from typing import Final

from moneystate.engine.avro import long_bytes, string_bytes, write_bytes, write_long
from moneystate.engine.effects import Effects
from moneystate.engine.items import NO_TIME, Output
from services.enrichment import fingerprints as fp
from services.enrichment.events import Reply
from services.enrichment.page import POSITION_BYTES
from services.enrichment.source import encode_source, optional
from services.enrichment.state import WAITING, User, WaitingMoney, decode_waiting, split_head
from services.enrichment.topics import ENRICHED, LOOKUP_REQUESTS

# Numbers of the enum symbols in MoneyEnriched and SessionLookupRequested.
JOINED: Final = 0
NO_SESSION: Final = 1
LOOKED_UP: Final = 2
NOT_FOUND: Final = 3
LOOKUP_FAILED: Final = 4
LATE: Final = 0
OLD: Final = 1
SESSION_MISSING: Final = 2
STATUS_OF_OUTCOME: Final = [LOOKED_UP, NOT_FOUND, LOOKUP_FAILED]

LINEAGE: Final = "lineage"
NO_SOURCES: Final = b"\x00\x00\x00"


def emit(
    effects: Effects, user: bytes, head: bytes, country: bytes | None, first: bool, status: int, lineage: bytes
) -> None:
    """Writes a MoneyEnriched. `head`: its encoded fields money and userInfo. `lineage`: the body of its Lineage."""
    session = b"\x00" if country is None else b"\x02" + string_bytes(country)
    value = fp.MONEY_ENRICHED + head + session + (b"\x01" if first else b"\x00") + long_bytes(status)
    effects.emit(ENRICHED, user, value, [(LINEAGE, fp.LINEAGE + lineage)])


def lineage(money: bytes, sources: bytes, session: bytes, reply: bytes) -> bytes:
    """The body of a Lineage. `sources`: three unions, as in `WaitingMoney`. The others are encoded sources."""
    return money + sources + optional(session) + optional(reply)


def release(
    effects: Effects, user: User, position: bytes, waiting: WaitingMoney, country: bytes | None, status: int,
    session: bytes = b"", reply: bytes = b"",
) -> None:  # fmt: skip
    """Writes money that has waited."""
    money = waiting_source(position, waiting)
    body = lineage(money, waiting.sources, session, reply)
    emit(effects, user.id, waiting.head, country, waiting.first, status, body)


def release_without_info(effects: Effects, user: User, position: bytes, waiting: WaitingMoney) -> None:
    """Writes waiting money of a user who is being forgotten, without user info."""
    money, _ = split_head(waiting.head)
    body = lineage(waiting_source(position, waiting), NO_SOURCES, b"", b"")
    emit(effects, user.id, money + b"\x00", None, waiting.first, LOOKUP_FAILED, body)


def waiting_source(position: bytes, waiting: WaitingMoney) -> bytes:
    _, event_time = split_head(waiting.head)
    topic, partition, offset = position[0], position[1:5], position[5:13]
    return encode_source(topic, int.from_bytes(partition, "big"), int.from_bytes(offset, "big"), event_time)


def resolve(effects: Effects, user: User, position: bytes, waiting: WaitingMoney, reply: Reply) -> None:
    status = STATUS_OF_OUTCOME[reply.outcome]
    country = reply.country if status == LOOKED_UP else None
    release(effects, user, position, waiting, country, status, reply=reply.source)


def asked_again(key: bytes, entry: bytes) -> Output | None:
    """The lookup request of a state entry. None: the entry is not money with an open lookup."""
    if not key.startswith(WAITING):
        return None
    waiting = decode_waiting(entry)
    if waiting.requested_at == NO_TIME:
        return None
    effects = Effects()
    request(effects, User(key[1:-POSITION_BYTES]), waiting, waiting.requested_at, waiting.reason)
    return effects.outputs[0]


def request(effects: Effects, user: User, waiting: WaitingMoney, t: int, reason: int) -> None:
    out = bytearray(fp.SESSION_LOOKUP_REQUESTED)
    write_bytes(out, waiting.money_id)
    write_bytes(out, user.id)
    write_bytes(out, waiting.session)
    write_long(out, t)
    write_long(out, reason)
    effects.emit(LOOKUP_REQUESTS, user.id, bytes(out), [])
