"""The broker of commands that look at a service's topics."""

from __future__ import annotations

from typing import NamedTuple

import typer

from moneystate.cli import services
from moneystate.cli.flag_groups import ClusterFlags
from moneystate.kafka.client import check_reachable
from moneystate.ports.service import JobSpec
from moneystate.runtime.job import service_spec


class Reached(NamedTuple):
    """A service with its declared rules, and the settings of clients that reach its broker."""

    job: JobSpec
    settings: dict[str, str]


def reach(context: typer.Context, cluster: ClusterFlags, service: str) -> Reached:
    """Raises BrokerError if no broker answers, and ConfigError."""
    job = service_spec(services.chosen(context, service)).job({})
    settings = cluster.settings()
    check_reachable(cluster.bootstrap_servers, settings)
    return Reached(job, settings)
