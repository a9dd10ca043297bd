"""The services that the command line knows. No other module of the platform imports a service; `known_services` has
the places of their commands."""

from __future__ import annotations

from typing import Final

from moneystate.cli import services
from moneystate.cli.known_services import ENRICHMENT as ENRICHMENT_NAME
from moneystate.cli.known_services import KNOWN
from moneystate.errors import CheckpointError
from moneystate.ports.service import ServiceSpec
from moneystate.runtime.job import plain_service
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import service_at
from moneystate.serving.face import Face
from moneystate.serving.state.face import StateFace
from services.enrichment.cli.enrich import prepared_enrichment
from services.enrichment.job import ENRICHMENT
from services.enrichment.serving.face import QUERY
from state_tools.offline import job_of, rules_of

SERVICES: Final = {service.name: service for service in [ENRICHMENT]}
# Makes the job of a service written by hand, from the flags of its own command. By short name.
PREPARED: Final = {ENRICHMENT_NAME: prepared_enrichment}
# The service of commands that name none: they have its flags, and `query.v1` is its contract.
DEFAULT: Final = ENRICHMENT


def service_of(folder: str, given: str = "") -> ServiceSpec:
    """The service of a savepoint or checkpoint. `given`: MODULE:SERVICE of a plain service. Raises CheckpointError."""
    job = job_of(folder)
    if not given:
        return named(folder, job)
    mine = [reference for reference in services.load_all(given) if service_at(reference).name == job]
    if not mine:
        raise CheckpointError(
            f"{folder}: expected the state of {given}, found that of {job}.", "give --service with that service."
        )
    return plain_service(mine[0], rules_of(folder))


def face_of(reference: str) -> Face:
    """The face for `serve`: of the plain service, or of the default service. Raises ServiceError for queries that
    cannot be called."""
    if not reference:
        return QUERY
    plan_of(reference).queries  # noqa: B018 (it checks them)
    return StateFace(reference)


def chosen(reference: str) -> ServiceSpec:
    """The service for commands that make a state: the plain service, or the default service."""
    return plain_service(reference) if reference else DEFAULT


def named(folder: str, job: str) -> ServiceSpec:
    """A service of this project, by the name of its job."""
    service = SERVICES.get(job)
    if service is not None:
        return service
    for path in [path for paths in KNOWN.values() for path in paths]:
        if service_at(path).name == job:
            return plain_service(path, rules_of(folder))
    raise CheckpointError(
        f"{folder}: expected the state of one of {', '.join([*SERVICES, *KNOWN])}, found that of {job}.",
        "name that service with --service MODULE:SERVICE.",
    )
