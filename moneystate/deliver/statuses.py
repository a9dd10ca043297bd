"""The records of the topic `endpoint-status`: the breaker of an endpoint, by its id, as it was last changed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from moneystate.deliver.breaker import Breaker, Status
from moneystate.deliver.history import NotARecord

STATUSES: Final = "endpoint-status"


def to_json(endpoint_id: str, breaker: Breaker, at_ms: int) -> bytes:
    its = asdict(breaker)
    content = {
        "endpointId": endpoint_id, "status": breaker.status.value, "reason": breaker.reason, "at": at_ms,
        "failures": breaker.failures, "failingSince": its["failing_since_ms"], "warned": breaker.is_warned,
        "row": breaker.row_offset, "closedAt": its["closed_at_ms"],
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def from_json(value: bytes) -> tuple[str, Breaker]:
    """The endpoint and its breaker. An open one is probed at once. Raises NotARecord."""
    try:
        content = json.loads(value)
        breaker = Breaker(
            Status(content["status"]), int(content["failures"]), _time(content["failingSince"]),
            closed_at_ms=_time(content["closedAt"]),
            is_warned=bool(content["warned"]), reason=str(content["reason"]), row_offset=int(content["row"]),
        )  # fmt: skip
        return str(content["endpointId"]), breaker
    except (ValueError, LookupError, TypeError, RecursionError):
        raise NotARecord("it is no status of an endpoint") from None


def _time(value: Any) -> int | None:
    return None if value is None else int(value)
