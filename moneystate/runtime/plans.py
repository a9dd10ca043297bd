"""Creates the plans of services by reference, with the released versions of their records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from moneystate.errors import ServiceError
from moneystate.records.json_fields import NOTED, marked
from moneystate.records.schema import fingerprint_of
from moneystate.runtime.folders import folder_of
from moneystate.runtime.plan import Plan
from moneystate.runtime.reference import made_at, with_rules


@lru_cache(maxsize=32)
def plan_of(reference: str, codes: tuple[tuple[str, int], ...] = ()) -> Plan:
    """The plan of a service by its reference (`moneystate.runtime.reference`), created once per process."""
    made = made_at(reference)
    events = folder_of(reference) / "events"
    files = [*released_state(reference), *sorted([*events.glob("*.avsc"), *events.glob("*/v*.avsc")])]
    json_fields = _json_fields(folder_of(reference) / "released.json")
    schemas = [_read(path) for path in files]
    schemas = [marked(s, json_fields[fp]) if (fp := fingerprint_of(s)) in json_fields else s for s in schemas]
    return Plan(made.service, made.rules, dict(codes), schemas)


def _read(path: Path) -> Any:
    try:
        schema = json.loads(path.read_bytes())
        fingerprint_of(schema)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as e:
        raise ServiceError(
            f"{path}: expected a schema that moneystate has released, found {type(e).__name__}: {e}.",
            "restore the file: a released schema is never edited.",
        ) from None
    return schema


def plan_as_run(reference: str, rules: Mapping[str, Any]) -> Plan:
    """The plan with the rules of an earlier batch."""
    return plan_of(reference_as_run(reference, rules), tuple(sorted(rules.get("topics", {}).items())))


def reference_as_run(reference: str, rules: Mapping[str, Any]) -> str:
    """The reference with the rules of a run. Rules that are not known have their current values."""
    own = made_at(reference).rules
    names = [] if own is None else [f.name for f in fields(own)]
    return with_rules(reference, {name: rules[name] for name in names if name in rules})


def _json_fields(releases: Path) -> dict[str, list[str]]:
    """The JSON fields of released versions, by fingerprint. Early releases did not record them."""
    if not releases.exists():
        return {}
    entries = json.loads(releases.read_bytes()).values()
    versions = [version for entry in entries for version in entry["versions"].values()]
    return {version["fingerprint"]: version[NOTED] for version in versions if NOTED in version}


def released_state(reference: str) -> list[Path]:
    """The schema files of all released versions of the service's state records."""
    return sorted((folder_of(reference) / "state").glob("*/v*.avsc"))
