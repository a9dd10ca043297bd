"""The broker of commands that look at a service's topics."""

from __future__ import annotations

from typing import NamedTuple

import typer

from moneystate.cli import registry, services
from moneystate.cli.flag_groups import KafkaFlags
from moneystate.kafka.client import check_reachable
from moneystate.ports.service import JobSpec


class Reached(NamedTuple):
    """A service with its declared rules, and the settings of clients that reach its broker."""

    job: JobSpec
    settings: dict[str, str]


def reach(context: typer.Context, bootstrap_servers: str, service: str, kafka_flags: KafkaFlags) -> Reached:
    """Raises BrokerError if no broker answers, and ConfigError."""
    job = registry.chosen(services.chosen(context, service)).job({})
    settings = kafka_flags.settings()
    check_reachable(bootstrap_servers, settings)
    return Reached(job, settings)
