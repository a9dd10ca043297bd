"""The topics of the enrichment, without prefix, and their numbers in items."""

from __future__ import annotations

from typing import Final

from moneystate.runtime.plan import Plan
from services.enrichment.service import service

PLAN: Final = Plan(service)
CODES: Final = PLAN.codes
INPUTS: Final = PLAN.input_topics()
USER_EVENTS: Final = CODES["user-events"]
SESSION_EVENTS: Final = CODES["user-session-events"]
WALLET_EVENTS: Final = CODES["wallet-events"]
LOOKUP_RESULTS: Final = CODES["session-lookup-results"]

ENRICHED: Final = 0
LOOKUP_REQUESTS: Final = 1
DEAD_LETTERS: Final = 2
STREAMS: Final = ["money-enriched-events", "session-lookup-requests", "money-enrichment-dead-letters"]
CHANGELOG: Final = "money-enrichment-state"
COMMITS: Final = "money-enrichment-commits"
