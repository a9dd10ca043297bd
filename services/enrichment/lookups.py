"""The declaration of the session lookup, for the worker of the processor that is written by hand."""

from __future__ import annotations

import moneystate as ms
from services.enrichment.records import SessionLookupCompleted, SessionLookupRequested
from services.enrichment.service import has_country

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
