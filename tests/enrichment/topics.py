"""The topics of the enrichment, without prefix, and their numbers in items and outputs."""

from __future__ import annotations

from typing import Final

from moneystate.runtime.plan import Plan
from services.enrichment.service import service

PLAN: Final = Plan(service)
CODES: Final = PLAN.codes

ENRICHED: Final = 0
LOOKUP_REQUESTS: Final = 1
DEAD_LETTERS: Final = 2
