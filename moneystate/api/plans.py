"""Creates the plans of services by reference, with the released versions of their records."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from moneystate.api.folders import folder_of
from moneystate.api.plan import Plan
from moneystate.api.reference import made_at


@lru_cache(maxsize=32)
def plan_of(reference: str, codes: tuple[tuple[str, int], ...] = ()) -> Plan:
    """The plan of a service by its reference (`moneystate.api.reference`), created once per process."""
    made = made_at(reference)
    events = folder_of(reference) / "events"
    files = [*released_state(reference), *sorted([*events.glob("*.avsc"), *events.glob("*/v*.avsc")])]
    return Plan(made.service, made.rules, dict(codes), [json.loads(path.read_text()) for path in files])


def released_state(reference: str) -> list[Path]:
    """The schema files of all released versions of the service's state records."""
    return sorted((folder_of(reference) / "state").glob("*/v*.avsc"))
