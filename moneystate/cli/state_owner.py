"""The service whose state a savepoint, a checkpoint or a server has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moneystate.cli import services
from moneystate.cli.known_services import KNOWN
from moneystate.errors import CheckpointError, ConfigError
from moneystate.ports.service import ServiceSpec
from moneystate.runtime.job import service_spec
from moneystate.runtime.reference import service_at
from state_tools.offline import job_of, rules_of


def service_of(folder: str, given: str = "") -> ServiceSpec:
    """The service of a savepoint or checkpoint. `given`: --service. Raises CheckpointError."""
    return service_named(folder, job_of(folder), given, rules_of(folder))


def service_named(place: str, name: str, given: str, rules: Mapping[str, Any]) -> ServiceSpec:
    """The service of a state that says that its name is `name`: one of this project, or `given`. Raises
    CheckpointError."""
    paths = services.load_all(given) if given else [path for paths in KNOWN.values() for path in paths]
    mine = [path for path in paths if service_at(path).name == name]
    if mine:
        return service_spec(mine[0], rules)
    expected = given or f"one of {', '.join(KNOWN)}"
    raise CheckpointError(
        f"{place}: expected the state of {expected}, found that of {name}.",
        "give --service with that service." if given else "name that service with --service MODULE:SERVICE.",
    )


def check_same(places: tuple[str, str], owners: tuple[ServiceSpec, ServiceSpec]) -> None:
    """Raises ConfigError if the states of two places belong to different services."""
    one, other = owners
    if one.name != other.name:
        raise ConfigError(
            f"{places[1]}: expected a state of {one.name} as {places[0]}, found one of {other.name}.",
            "compare states of one service.",
        )
