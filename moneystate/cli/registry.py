"""The services that the command line knows, with their own commands: no other module of the platform imports any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moneystate.errors import CheckpointError
from moneystate.ports.service import ServiceSpec
from moneystate.serving.face import Face
from services.enrichment.cli.demo import demo
from services.enrichment.cli.enrich import enrich
from services.enrichment.cli.fake_session_service import fake_session_service
from services.enrichment.cli.lookup_worker import lookup_worker
from services.enrichment.job import ENRICHMENT
from services.enrichment.serving.face import QUERY
from state_tools.offline import job_of

SERVICES: Final = {service.name: service for service in [ENRICHMENT]}
COMMANDS: Final[list[Callable[..., None]]] = [enrich, lookup_worker, fake_session_service, demo]
DEFAULT: Final = ENRICHMENT  # of commands that name no service: its flags are theirs, `query.v1` is its
FACE: Final[Face] = QUERY  # of `serve`


def service_of(folder: str) -> ServiceSpec:
    """The service whose state a savepoint or a checkpoint is. Raises CheckpointError."""
    return named(folder, job_of(folder))


def named(folder: str, job: str) -> ServiceSpec:
    service = SERVICES.get(job)
    if service is None:
        raise CheckpointError(
            f"{folder}: expected the state of one of {', '.join(SERVICES)}, came that of {job}.",
            "use the program that has this service.",
        )
    return service
