"""Jobs of the enrichment with the rules of the reference model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from moneystate.ports.service import JobSpec
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.job import job_spec, service_spec
from tests.enrichment.topics import PLAN
from tests.reference import model

SERVICE: Final = "services.enrichment.service:service"
DECODER: Final = ServiceDecoder(PLAN)
STATE: Final = service_spec(SERVICE).state


@dataclass(frozen=True)
class Rules(model.Rules):
    """The model's rules, without lookups unless they are asked for."""

    lookup: bool = False


def given(rules: model.Rules) -> dict[str, Any]:
    """The rules as the service and the platform have them."""
    values = {name: getattr(rules, name) for name in model.Rules.__slots__}
    return {**values, "session_lookup": "topic" if values.pop("lookup") else "none"}


def enrichment_job(rules: model.Rules) -> JobSpec:
    return job_spec(SERVICE, given(rules))
