"""Creates the plans of services by reference, with the released versions of their records."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from moneystate.api.folders import folder_of
from moneystate.api.json_fields import NOTED, marked
from moneystate.api.plan import Plan
from moneystate.api.reference import made_at
from moneystate.api.schema import fingerprint_of


@lru_cache(maxsize=32)
def plan_of(reference: str, codes: tuple[tuple[str, int], ...] = ()) -> Plan:
    """The plan of a service by its reference (`moneystate.api.reference`), created once per process."""
    made = made_at(reference)
    events = folder_of(reference) / "events"
    files = [*released_state(reference), *sorted([*events.glob("*.avsc"), *events.glob("*/v*.avsc")])]
    noted = _json_fields(folder_of(reference) / "released.json")
    schemas = [json.loads(path.read_text()) for path in files]
    schemas = [marked(s, noted[its]) if (its := fingerprint_of(s)) in noted else s for s in schemas]
    return Plan(made.service, made.rules, dict(codes), schemas)


def _json_fields(releases: Path) -> dict[str, list[str]]:
    """What the list of releases notes, by fingerprint. Releases of before do not have it."""
    if not releases.exists():
        return {}
    versions = [v for its in json.loads(releases.read_text()).values() for v in its["versions"].values()]
    return {version["fingerprint"]: version[NOTED] for version in versions if NOTED in version}


def released_state(reference: str) -> list[Path]:
    """The schema files of all released versions of the service's state records."""
    return sorted((folder_of(reference) / "state").glob("*/v*.avsc"))
