"""The declaration of the session lookup, for its worker. The processor, which is written by hand, asks and takes the
replies itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import moneystate as ms

MAX_CODE_BYTES: Final = 1024

Reason = Annotated[Literal["LATE", "OLD", "SESSION_MISSING"], ms.Name("moneystate.lookups.LookupReason")]
Outcome = Annotated[ms.Outcome, ms.Name("moneystate.lookups.LookupOutcome")]


@ms.named("moneystate.lookups.SessionLookupRequested")
@dataclass(frozen=True)
class SessionLookupRequested:
    money_id: str
    user_id: str
    user_session_id: str
    requested_at: ms.Millis
    reason: Reason


@ms.named("moneystate.lookups.SessionLookupCompleted")
@dataclass(frozen=True)
class SessionLookupCompleted:
    money_id: str
    user_id: str
    user_session_id: str
    requested_at: ms.Millis
    outcome: Outcome
    client_country_code: str | None
    attempts: ms.Int32
    completed_at: ms.Millis


def has_country(reply: SessionLookupCompleted) -> bool:
    """Whether the code is one that a job keeps. It would reject a reply with a longer one, and the money would wait
    forever."""
    return 0 < len((reply.client_country_code or "").encode()) <= MAX_CODE_BYTES


service = ms.Service("moneystate-enrich", namespace="moneystate.lookups")
sessions = service.lookup(
    "session_lookup",
    request=SessionLookupRequested,
    reply=SessionLookupCompleted,
    key="user_id",
    time="requested_at",
    by=("money_id",),
    url="/sessions/{user_session_id}",
    accept=has_country,
)


@service.on(sessions)
def replied(ctx: ms.Context[None], reply: SessionLookupCompleted, asked: SessionLookupRequested) -> None:
    raise NotImplementedError("the processor takes the replies: services/enrichment/step.py")
