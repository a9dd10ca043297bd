"""The topics of the enrichment, without prefix, and their numbers in items and outputs."""

from __future__ import annotations

from typing import Final

from moneystate.runtime.plan import Plan
from services.enrichment.service import service

PLAN: Final = Plan(service)
CODES: Final = PLAN.codes
NAMES: Final = {code: topic for topic, code in CODES.items()}

LOOKUP_RESULTS: Final = CODES["session-lookup-results"]
USER_EVENTS: Final = CODES["user-events"]
SESSION_EVENTS: Final = CODES["user-session-events"]
WALLET_EVENTS: Final = CODES["wallet-events"]

ENRICHED: Final = 0
LOOKUP_REQUESTS: Final = 1
DEAD_LETTERS: Final = 2
STREAMS: Final = [*PLAN.streams, "money-enrichment-dead-letters"]
CHANGELOG: Final = "money-enrichment-state"
