"""The records of the topic `endpoint-events`: what became of endpoints, as events that their owners can subscribe to.

They are CloudEvents in binary mode, so the router reads the topic as any other one of `cloud_events`. The tenant is
`owner:` and the owner, which a token of this owner grants. The key is the endpoint. A value is a JSON object:

    endpointId, owner, status, reason       as in `endpoint-status`
    failingSince                            ms since 1970; null: it does not fail
    at                                      ms since 1970

An event comes from a change of a status, which takes ten failures in a row, an answer 410, a success after failures, a
newer row, or a command. The delivery of one such event changes nothing, so no event leads to others for ever.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from moneystate.deliver.breaker import Breaker, Status

EVENTS: Final = "endpoint-events"
SOURCE: Final = "moneystate/deliver"
TENANT: Final = "owner:"


class Kind(StrEnum):
    """The types of events."""

    OPENED = "moneystate.endpoint.opened"
    CLOSED = "moneystate.endpoint.closed"
    WARNED = "moneystate.endpoint.warned"  # it will be disabled if it goes on to fail
    DISABLED = "moneystate.endpoint.disabled"
    ENABLED = "moneystate.endpoint.enabled"


@dataclass(frozen=True, slots=True)
class StatusEvent:
    kind: Kind
    endpoint_id: str
    owner: str
    breaker: Breaker
    at_ms: int


def kinds_of(before: Breaker, after: Breaker) -> list[Kind]:
    """Returns what a change of a breaker is for the owner."""
    kinds = []
    if after.is_warned and not before.is_warned:
        kinds.append(Kind.WARNED)
    if before.status is not after.status:
        if after.status is Status.CLOSED:
            kinds.append(Kind.ENABLED if before.status is Status.DISABLED else Kind.CLOSED)
        else:
            kinds.append(Kind.OPENED if after.status is Status.OPEN else Kind.DISABLED)
    return kinds


def tenant_of(owner: str) -> str:
    return TENANT + owner


def headers_of(event: StatusEvent) -> list[tuple[str, bytes]]:
    time = datetime.fromtimestamp(event.at_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    attributes = {
        "ce_specversion": "1.0", "ce_id": f"{event.endpoint_id}/{event.at_ms}/{event.kind.rpartition('.')[2]}",
        "ce_source": SOURCE, "ce_type": event.kind.value, "ce_time": time.replace("+00:00", "Z"),
        "ce_tenant": tenant_of(event.owner), "content-type": "application/json",
    }  # fmt: skip
    return [(name, text.encode()) for name, text in attributes.items()]


def to_json(event: StatusEvent) -> bytes:
    its = event.breaker
    content = {
        "endpointId": event.endpoint_id, "owner": event.owner, "status": its.status.value, "reason": its.reason,
        "failingSince": its.failing_since_ms, "at": event.at_ms,
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
