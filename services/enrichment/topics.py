"""The topics of the enrichment, without prefix (docs/model.md section 4), and their numbers in items."""

from __future__ import annotations

from typing import Final

from moneystate.engine.processor import InputTopic

LOOKUP_RESULTS: Final = 0
USER_EVENTS: Final = 1
SESSION_EVENTS: Final = 2
WALLET_EVENTS: Final = 3

INPUTS: Final[list[InputTopic]] = [
    InputTopic(LOOKUP_RESULTS, "session-lookup-results", False, 0),
    InputTopic(USER_EVENTS, "user-events", True, 0),
    InputTopic(SESSION_EVENTS, "user-session-events", True, 1),
    InputTopic(WALLET_EVENTS, "wallet-events", True, 2),
]

ENRICHED: Final = 0
LOOKUP_REQUESTS: Final = 1
DEAD_LETTERS: Final = 2
STREAMS: Final[list[str]] = ["money-enriched-events", "session-lookup-requests", "money-enrichment-dead-letters"]
CHANGELOG: Final = "money-enrichment-state"
COMMITS: Final = "money-enrichment-commits"
