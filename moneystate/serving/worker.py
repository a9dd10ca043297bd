"""A worker process of the query server. It answers until SIGTERM or until its parent has died."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

from moneystate.rpc import loop
from moneystate.rpc.core import Queue
from moneystate.serving.calls import Calls
from moneystate.serving.garbage import spare_garbage_collection
from moneystate.serving.limits import Rooms
from moneystate.serving.metrics import Metrics
from moneystate.serving.options import ServeOptions
from moneystate.serving.page_tokens import PageTokens, key_of
from moneystate.serving.server import Listen, QueryServer
from moneystate.serving.state.served import ServedService
from moneystate.telemetry.spans import ServedCalls

PAGE_TOKEN_KEY = "page-token.key"
SWITCH_S: Final = 0.001  # Python's own 5 ms would be half of what an answer may take


@dataclass(frozen=True)
class WorkerTask:
    """The arguments of a worker process."""

    options: ServeOptions
    served: ServedService
    address: str  # with the port that all workers share
    page_token_key: str  # a file


def page_token_key(options: ServeOptions) -> str:
    """Creates the key file if it does not exist. Raises ConfigError."""
    path = Path(options.page_token_key or Path(options.data) / PAGE_TOKEN_KEY)
    key_of(path)
    return str(path)


def run(task: WorkerTask, parent: Connection) -> None:
    """Runs a worker. It reports "listening" to its parent, and ends with code 0 once drained."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes: the parent tells this one to stop
    loop.run(partial(_serve, task, parent))


def _spare_waiting() -> None:
    """A query that computes in a thread has the interpreter at most so long while the event loop waits for it."""
    sys.setswitchinterval(SWITCH_S)


async def _serve(task: WorkerTask, parent: Connection, queue: Queue) -> None:
    options = task.options
    stop = asyncio.Event()
    running = asyncio.get_running_loop()
    running.add_signal_handler(signal.SIGTERM, stop.set)
    running.add_reader(parent.fileno(), stop.set)  # the parent never sends, so readable means that it has died
    answers = task.served.open(options)
    metrics = Metrics()
    audit = options.security.audit()
    callers, rooms = options.security.callers(task.address), Rooms(options.limits)
    traces = _traces(task.served.name, metrics) if options.traces else None
    calls = Calls(callers, audit, metrics, rooms, None if traces is None else traces.spans)
    tokens = PageTokens(key_of(Path(task.page_token_key)))
    listen = Listen(task.address, options.security.credentials())
    server = QueryServer(task.served.services, answers, calls, tokens, metrics, listen, queue)
    await server.start()
    spare_garbage_collection()
    _spare_waiting()
    parent.send("listening")
    try:
        await server.run(stop)
    finally:
        await server.drain(options.grace_s)
        if traces is not None:
            await asyncio.to_thread(traces.close)
        await asyncio.to_thread(answers.close)
        audit.close()


class _Traced(NamedTuple):
    spans: ServedCalls
    close: Callable[[], None]


def _traces(service: str, metrics: Metrics) -> _Traced:
    # here: otherwise every worker would need and load OpenTelemetry's SDK
    from moneystate.telemetry.call_spans import CallSpans
    from moneystate.telemetry.traces import Traces

    traces = Traces(f"{service}-queries", lambda number, result: metrics.spans.labels(result).inc(number))
    return _Traced(CallSpans(traces), traces.close)
