"""`moneystate fake-session-service`: a session service on loopback, for trying things out."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from moneystate.cli.durations import parse_ms
from moneystate.cli.options import flag
from moneystate.errors import ConfigError
from services.enrichment.lookup.fake_service import FakeSessionService, Knowledge


def fake_session_service(
    port: Annotated[int, flag("FAKE_PORT", "Port on 127.0.0.1; 0: any free one.")] = 8080,
    latency: Annotated[str, flag("FAKE_LATENCY", "How long each answer takes.")] = "0ms",
    error_rate: Annotated[float, flag("FAKE_ERROR_RATE", "Share of calls that are answered with 500.")] = 0.0,
    not_found_rate: Annotated[float, flag("FAKE_NOT_FOUND_RATE", "Share of sessions that it does not know.")] = 0.0,
    seed: Annotated[int, flag("FAKE_SEED", "Its answers are a pure function of the session's id and this.")] = 1,
) -> None:
    """Answer GET /sessions/{userSessionId} until SIGTERM or Ctrl-C. Prints its URL template."""
    for name, rate in (("--error-rate", error_rate), ("--not-found-rate", not_found_rate)):
        if not 0 <= rate <= 1:
            raise ConfigError(f"{name} {rate}: expected a share from 0 to 1.")
    knowledge, latency_s = Knowledge(seed, not_found_rate, error_rate), parse_ms(latency, "--latency") / 1000
    ends = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # for all threads: the one below waits for them
    with FakeSessionService(knowledge, latency_s, port) as service:
        typer.echo(service.url_template)
        signal.sigwait(ends)
