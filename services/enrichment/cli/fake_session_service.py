"""`moneystate fake-session-service`: a session service on loopback, for trying things out."""

from __future__ import annotations

from typing import Annotated

import typer

from moneystate.cli.durations import parse_ms
from moneystate.cli.option import DURATION, Panel, option
from moneystate.cli.options import port, seed
from moneystate.stop_signals import stop_signals
from services.enrichment.fake_service import FakeSessionService, Knowledge

SCOPE = "FAKE"  # in the names of its variables, because other commands also have a port and a seed
SHARE = "0..1"


def fake_session_service(
    port_number: Annotated[int, port(SCOPE)] = 8080,
    latency: Annotated[str, option("latency", "How long each answer takes.", Panel.run, DURATION, scope=SCOPE)] = "0ms",
    error_rate: Annotated[
        float,
        option(
            "error-rate", "Share of calls that are answered with 500.", Panel.run, SHARE, scope=SCOPE, least=0, most=1
        ),
    ] = 0.0,
    not_found_rate: Annotated[
        float,
        option(
            "not-found-rate", "Share of sessions that it does not know.", Panel.run, SHARE, scope=SCOPE, least=0, most=1
        ),
    ] = 0.0,
    seed_number: Annotated[int, seed(SCOPE)] = 1,
) -> None:
    """A session service on loopback, for trying things out.

    It prints its URL and answers GET /sessions/{userSessionId} until SIGTERM or Ctrl-C. Its answers are a pure
    function of the session's id and --seed.
    """
    knowledge, latency_s = Knowledge(seed_number, not_found_rate, error_rate), parse_ms(latency, "--latency") / 1000
    with stop_signals() as stopped, FakeSessionService(knowledge, latency_s, port_number) as service:
        typer.echo(service.url)
        stopped.wait()
