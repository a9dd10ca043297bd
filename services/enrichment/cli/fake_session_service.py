"""`moneystate fake-session-service`: a session service on loopback, for trying things out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from moneystate.cli.durations import parse_ms
from moneystate.cli.option import DURATION, Flags, Panel, flag
from moneystate.cli.options import port, seed
from moneystate.stop_signals import stop_signals
from services.enrichment.fake_service import FakeSessionService, Knowledge

SCOPE = "FAKE"  # in the names of its variables, because other commands also have a port and a seed
SHARE = "0..1"


@dataclass(frozen=True)
class FakeFlags(Flags):
    port_number: Annotated[int, port(scope=SCOPE)] = 8080
    latency: str = flag("0ms", "How long each answer takes.", Panel.run, DURATION, scope=SCOPE)
    error_rate: float = flag(
        0.0, "Share of calls that are answered with 500.", Panel.run, SHARE, scope=SCOPE, least=0, most=1
    )
    not_found_rate: float = flag(
        0.0, "Share of sessions that it does not know.", Panel.run, SHARE, scope=SCOPE, least=0, most=1
    )
    seed_number: Annotated[int, seed(scope=SCOPE)] = 1


def fake_session_service(flags: FakeFlags) -> None:
    """A session service on loopback, for trying things out.

    It prints its URL and answers GET /sessions/{userSessionId} until SIGTERM or Ctrl-C. Its answers are a pure
    function of the session's id and --seed.
    """
    knowledge = Knowledge(flags.seed_number, flags.not_found_rate, flags.error_rate)
    latency_s = parse_ms(flags.latency, "--latency") / 1000
    with stop_signals() as stopped, FakeSessionService(knowledge, latency_s, flags.port_number) as service:
        typer.echo(service.url)
        stopped.wait()
