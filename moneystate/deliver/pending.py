"""The records of the topic `delivery-pending`: what is not delivered yet and stands before its partition's position.

The key is the webhook-id, or the id of a delivery that waits for its batch. A tombstone says that it has ended. The
value is a JSON object:

    webhookId, endpointId, subscriptionId
    place                                   the offset of its first delivery in `deliveries`
    run, attempts, due                      as in `Queued`; times are ms
    routed                                  when the router wrote the first of its deliveries, in ms
    paused                                  for how long its endpoint was paused since it came, when this was written
    format                                  null: a single event; array or ndjson: a batch
    cut                                     false: it waits for its batch
    parts                                   the number of records that hold its members
    members                                 the records of `deliveries`, as they are there, in Base64

A large batch has its first members in this record, and the others in records of their own, which never change. The keys
of those are webhook-id/1, webhook-id/2, and so on. Their values have the fields `webhookId`, `part` and `members`. The
records of a message are written in one transaction, and so are their tombstones.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moneystate.deliver.envelopes import Format
from moneystate.deliver.history import NotARecord
from moneystate.deliver.outcomes import Age
from moneystate.deliver.records import Delivery, DeliveryReader, NotADelivery
from moneystate.deliver.requests import Message

PENDING: Final = "delivery-pending"
FIRST_RUN: Final = 1
PART_BYTES: Final = 500_000  # a record has at most so many bytes of members, unless a single one is larger


@dataclass(slots=True)
class Queued:
    """A message that is not delivered yet. `message` None: its members are only in the store of its worker.

    `place`: the offset of its first member in `deliveries`, by which messages are in order; `lane`: messages of a lane
    are sent one after another; empty: no order; `routed_ms`: when the router wrote it;
    `paused_base_ms`: for how long its queue had been paused when it came; `is_stored`: it stands in `delivery-pending`;
    `is_committed`: that is committed, so that its members can be read again.
    """

    message: Message | None
    place: int
    routed_ms: int
    run: int = 1
    attempts: int = 0
    due_ms: int = 0
    paused_base_ms: int = 0
    lane: str = ""
    is_cut: bool = True
    is_stored: bool = False
    is_committed: bool = False
    has_ended: bool = False  # or its batch has taken its place
    problem: str = ""  # of the last attempt
    status: int | None = None
    webhook_id: str = field(init=False)
    endpoint_id: str = field(init=False)
    subscription_id: str = field(init=False)
    tenant: str | None = field(init=False)  # of its first member
    time_ms: int = field(init=False)  # of its first member
    format: Format | None = field(init=False)
    members: int = field(init=False)
    bytes: int = field(init=False)
    parts: int = field(init=False)

    def __post_init__(self) -> None:
        message = self.loaded
        first = message.members[0]
        self.webhook_id, self.format, self.members = message.webhook_id, message.format, len(message.members)
        self.endpoint_id, self.subscription_id = sys.intern(first.endpoint_id), sys.intern(first.subscription_id)
        self.tenant = None if first.tenant is None else sys.intern(first.tenant)
        self.time_ms = first.time_ms
        self.bytes = sum(len(one.body) for one in message.members)
        self.parts = len(_parts(message.members))

    @property
    def loaded(self) -> Message:
        """Its message, which has to be in memory."""
        assert self.message is not None
        return self.message

    def age(self, paused_ms: int) -> Age:
        """`paused_ms`: for how long its queue has been paused in all."""
        return Age(self.routed_ms, paused_ms - self.paused_base_ms)


def keys(webhook_id: str, parts: int) -> list[str]:
    """Returns the keys of the records of a message."""
    return [webhook_id, *(f"{webhook_id}/{number}" for number in range(1, parts))]


def webhook_id_of(key: str) -> str:
    """Reads the id from the key of any of its records."""
    return key.partition("/")[0]


def is_first(key: str) -> bool:
    """Whether a key is that of a message's first record."""
    return "/" not in key


def to_records(queued: Queued, paused_ms: int) -> dict[str, bytes]:
    """Values by key. `paused_ms`: for how long its queue has been paused in all. Only the first record changes with
    attempts."""
    message = queued.loaded
    first, *others = _parts(message.members)
    content = {
        "webhookId": message.webhook_id, "endpointId": queued.endpoint_id, "subscriptionId": queued.subscription_id,
        "place": queued.place, "run": queued.run, "attempts": queued.attempts, "due": queued.due_ms,
        "routed": queued.routed_ms, "paused": paused_ms - queued.paused_base_ms,
        "format": None if message.format is None else message.format.value,
        "cut": queued.is_cut, "parts": 1 + len(others), "members": _encoded(first),
    }  # fmt: skip
    records = {message.webhook_id: _json(content)}
    if not queued.is_stored:
        for number, part in enumerate(others, 1):
            its = {"webhookId": message.webhook_id, "part": number, "members": _encoded(part)}
            records[f"{message.webhook_id}/{number}"] = _json(its)
    return records


def from_records(webhook_id: str, read: Callable[[str], bytes | None], reader: DeliveryReader) -> Queued:
    """As of a queue that was never paused. `read` gives the value of a key. Raises NotARecord."""
    try:
        content = _content(read(webhook_id))
        members = _members(content, reader)
        for key in keys(webhook_id, int(content["parts"]))[1:]:
            members += _members(_content(read(key)), reader)
        format = None if content["format"] is None else Format(content["format"])
        message = Message(webhook_id, members, format)
        place, run, attempts, due_ms, routed_ms, paused_ms = (
            int(content[name]) for name in ("place", "run", "attempts", "due", "routed", "paused")
        )
        if not members or content["webhookId"] != webhook_id:
            raise ValueError
    except (ValueError, LookupError, TypeError, RecursionError, NotADelivery):
        raise NotARecord("it is no pending delivery") from None
    one = Queued(message, place, routed_ms, run, attempts, due_ms, -paused_ms, is_cut=bool(content["cut"]))
    one.is_stored = one.is_committed = True
    return one


def _content(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise ValueError
    content: dict[str, Any] = json.loads(value)
    return content


def _members(content: dict[str, Any], reader: DeliveryReader) -> list[Delivery]:
    return [reader.read(base64.b64decode(one, validate=True)) for one in content["members"]]


def _encoded(members: Sequence[Delivery]) -> list[str]:
    return [base64.b64encode(one.record).decode() for one in members]


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _parts(members: Sequence[Delivery]) -> list[Sequence[Delivery]]:
    """The members of each record, which are the same each time."""
    parts: list[Sequence[Delivery]] = []
    start, size = 0, 0
    for place, one in enumerate(members):
        its = len(one.record) * 4 // 3  # in Base64
        if place > start and size + its > PART_BYTES:
            parts.append(members[start:place])
            start, size = place, 0
        size += its
    return [*parts, members[start:]]
