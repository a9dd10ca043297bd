"""`moneystate demo`: a service with invented events, on its own broker."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from moneystate.cli.known_services import DEMOS
from moneystate.errors import ConfigError

BROKEN_EXIT_CODE = 1


def demo(
    service: Annotated[str, typer.Argument(metavar="SERVICE", help=f"One of {', '.join(DEMOS)}.")] = "enrichment",
) -> None:
    """Show a service with invented events.

    The events go through a broker that is started for the demo and through the real job. The demo shows whether each
    promise is kept. It takes about a minute and leaves nothing behind. The command ends with code 0 if every promise is
    kept, otherwise with 1.
    """
    if service not in DEMOS:
        raise ConfigError(
            f"demo {service}: expected a service with a demo, found none of that name.",
            f"use one of {', '.join(DEMOS)}.",
        )
    module, _, name = DEMOS[service].partition(":")
    held: bool = getattr(import_module(module), name)()
    if not held:
        raise typer.Exit(BROKEN_EXIT_CODE)
