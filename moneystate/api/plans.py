"""Loads the plans of services by reference, with the released versions of their state records."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from moneystate.api.folders import folder_of
from moneystate.api.plan import Plan
from moneystate.api.reference import made_at


@lru_cache(maxsize=32)
def plan_of(reference: str, codes: tuple[tuple[str, int], ...] = ()) -> Plan:
    """The service of a reference (`moneystate.api.reference`), made once in each process."""
    made = made_at(reference)
    events = folder_of(reference) / "events"
    files = [*released_state(reference), *sorted([*events.glob("*.avsc"), *events.glob("*/v*.avsc")])]
    return Plan(made.service, made.rules, dict(codes), [json.loads(path.read_text()) for path in files])


def released_state(reference: str) -> list[Path]:
    """The schemas of all versions of the service's records of state that are on disk."""
    return sorted((folder_of(reference) / "state").glob("*/v*.avsc"))
