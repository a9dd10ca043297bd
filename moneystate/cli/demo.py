"""`moneystate demo`: a service on a broker of its own, with made-up events."""

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
    """Send made-up events through a real broker and the real job, and show whether each promise was held.

    Takes about a minute and leaves nothing behind. Ends with code 0 if every promise was held, else with 1.
    """
    if service not in DEMOS:
        raise ConfigError(f"demo {service}: there is no such demo.", f"use one of {', '.join(DEMOS)}.")
    module, _, name = DEMOS[service].partition(":")
    held: bool = getattr(import_module(module), name)()
    if not held:
        raise typer.Exit(BROKEN_EXIT_CODE)
