"""The flag --traces of commands that call, or whose processes trace themselves.

OpenTelemetry is imported in these functions: without the flag, a command neither needs nor loads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moneystate.telemetry.spans import RequestedCalls

ASK = "moneystate-ask"


def check_traces() -> None:
    """Raises ConfigError if no traces can be sent."""
    from moneystate.telemetry.traces import check_protocol

    check_protocol()


@contextmanager
def calls_traced(wanted: bool) -> Iterator[RequestedCalls | None]:
    """Yields what traces the calls of a client; None: not wanted. Raises ConfigError."""
    if not wanted:
        yield None
        return
    check_traces()
    from moneystate.telemetry.call_spans import CallSpans
    from moneystate.telemetry.traces import Traces

    traces = Traces(ASK, lambda *_: None)
    try:
        yield CallSpans(traces)
    finally:
        traces.close()
