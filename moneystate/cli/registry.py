"""The services that the command line knows, with their own commands: no other module of the platform imports any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moneystate.api.job import plain_service
from moneystate.cli import services
from moneystate.errors import CheckpointError
from moneystate.ports.service import ServiceSpec
from moneystate.serving.face import Face
from services.enrichment.cli.demo import demo
from services.enrichment.cli.enrich import enrich
from services.enrichment.cli.fake_session_service import fake_session_service
from services.enrichment.cli.lookup_worker import lookup_worker
from services.enrichment.job import ENRICHMENT
from services.enrichment.serving.face import QUERY
from state_tools.offline import job_of, rules_of

SERVICES: Final = {service.name: service for service in [ENRICHMENT]}
COMMANDS: Final[list[Callable[..., None]]] = [enrich, lookup_worker, fake_session_service, demo]
DEFAULT: Final = ENRICHMENT  # of commands that name no service: its flags are theirs, `query.v1` is its
FACE: Final[Face] = QUERY  # of `serve`


def service_of(folder: str, given: str = "") -> ServiceSpec:
    """The service whose state a savepoint or a checkpoint is; `given`: where a plain one is, MODULE:SERVICE. Raises
    CheckpointError."""
    job = job_of(folder)
    if not given:
        return named(folder, job)
    service = plain_service(services.load(given), rules_of(folder))
    if service.name != job:
        raise CheckpointError(
            f"{folder}: expected the state of {service.name}, found that of {job}.",
            "give its own service as --service.",
        )
    return service


def chosen(given: str) -> ServiceSpec:
    """Of commands that make a state: the plain service MODULE:SERVICE, or the default."""
    return plain_service(services.load(given)) if given else DEFAULT


def named(folder: str, job: str) -> ServiceSpec:
    service = SERVICES.get(job)
    if service is None:
        raise CheckpointError(
            f"{folder}: expected the state of one of {', '.join(SERVICES)}, found that of {job}.",
            "say where that service is: --service MODULE:SERVICE.",
        )
    return service
