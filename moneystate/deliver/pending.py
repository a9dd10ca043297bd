"""The records of the topic `delivery-pending`: what is not delivered yet and stands before its partition's position.

The key is the webhook-id, or the id of a delivery that waits for its batch. A tombstone says that it has ended. The
value is a JSON object:

    webhookId, run, attempts, due           as in `Queued`; times are ms
    paused                                  for how long its endpoint was paused since it came, when this was written
    format                                  null: a single event; array or ndjson: a batch
    cut                                     false: it waits for its batch
    members                                 deliveries, as in `undelivered`
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from moneystate.deliver.envelopes import Format
from moneystate.deliver.history import NotARecord, delivery_from_plain, plain_delivery
from moneystate.deliver.outcomes import Age
from moneystate.deliver.records import Delivery
from moneystate.deliver.requests import Message

PENDING: Final = "delivery-pending"


@dataclass(slots=True)
class Queued:
    """A message that is not delivered yet. `lane`: messages of a lane are sent one after another; empty: no order;
    `paused_base_ms`: for how long its queue had been paused when it came; `is_stored`: it stands in
    `delivery-pending`."""

    message: Message
    run: int = 1
    attempts: int = 0
    due_ms: int = 0
    paused_base_ms: int = 0
    lane: str = ""
    is_cut: bool = True
    is_stored: bool = False
    problem: str = ""  # of the last attempt
    status: int | None = None

    @property
    def webhook_id(self) -> str:
        return self.message.webhook_id

    @property
    def first(self) -> Delivery:
        return self.message.members[0]

    @property
    def bytes(self) -> int:
        return sum(len(one.body) for one in self.message.members)

    def age(self, paused_ms: int) -> Age:
        """`paused_ms`: for how long its queue has been paused in all."""
        return Age(self.first.time_ms, paused_ms - self.paused_base_ms)


def to_json(queued: Queued, paused_ms: int) -> bytes:
    """`paused_ms`: for how long its queue has been paused in all."""
    message = queued.message
    content = {
        "webhookId": message.webhook_id, "run": queued.run, "attempts": queued.attempts, "due": queued.due_ms,
        "paused": paused_ms - queued.paused_base_ms, "format": None if message.format is None else message.format.value,
        "cut": queued.is_cut, "members": [plain_delivery(one) for one in message.members],
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def from_json(value: bytes) -> Queued:
    """As of a queue that was never paused. Raises NotARecord."""
    try:
        content: dict[str, Any] = json.loads(value)
        members = [delivery_from_plain(one) for one in content["members"]]
        format = None if content["format"] is None else Format(content["format"])
        message = Message(content["webhookId"], members, format)
        run, attempts, due_ms, paused_ms = (int(content[name]) for name in ("run", "attempts", "due", "paused"))
        if not members or not isinstance(message.webhook_id, str):
            raise ValueError
    except (ValueError, LookupError, TypeError, RecursionError):
        raise NotARecord("it is no pending delivery") from None
    return Queued(message, run, attempts, due_ms, -paused_ms, is_cut=bool(content["cut"]), is_stored=True)
