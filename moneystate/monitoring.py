"""The HTTP endpoint of a running command: Prometheus metrics, and whether the command is alive and ready.

    /metrics    metrics, labelled with the service that they are about
    /livez      200, or 503 if only a restart helps
    /readyz     200, or 503 if the command does not do its work at the moment

A text says why.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moneystate.errors import SetupError
from moneystate.log import get_log

_log = get_log(__name__)

LIVE, READY = "/livez", "/readyz"
PULSE_S = 60.0  # far longer than any loop here takes for one turn


class Health(NamedTuple):
    """An answer."""

    is_good: bool
    text: str


Check = Callable[[], Health]


def all_of(checks: Sequence[Check]) -> Check:
    """Good if all are. It has the text of each."""

    def check() -> Health:
        answers = [one() for one in checks]
        return Health(all(a.is_good for a in answers), "\n".join(a.text for a in answers))

    return check


class Pulse:
    """Whether a loop still turns."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.beat_at: float | None = None  # None: the loop does not run

    def beat(self) -> None:
        self.beat_at = self.clock()

    def end(self) -> None:
        self.beat_at = None

    def check(self) -> Health:
        silent_s = 0.0 if self.beat_at is None else self.clock() - self.beat_at
        if silent_s <= PULSE_S:
            return Health(True, "alive")
        return Health(False, f"the main loop stands still for {silent_s:.0f} s")


class Labelled(Collector):
    """The metrics of several services, each with its service as a label. Services share the names of metrics."""

    def __init__(self, collectors: Mapping[str, Collector]) -> None:
        self.collectors = collectors

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for service, collector in self.collectors.items():
            for metric in collector.collect():
                family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                family.samples += [s._replace(labels={**s.labels, "service": service}) for s in metric.samples]
        return families.values()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True  # a slow reader must not hold up the end of the command

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The library would print a traceback, also if only the caller has hung up."""
        error = sys.exception()
        if not isinstance(error, OSError):
            _log.error("a request for metrics failed", exc_info=error)


class _Silent(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Scrapes are no news."""


def expose(host: str, port: int, metrics: Collector, live: Check, ready: Check) -> None:
    """Answers from a thread until the process ends. Raises SetupError."""
    try:
        server = make_server(host, port, _app(metrics, {LIVE: live, READY: ready}), _server_class(host), _Silent)
    except OSError as e:
        raise SetupError(
            f"--metrics-host {host}, --metrics-port {port}: expected a free port of this machine, but {e.strerror}.",
            "choose another.",
        ) from None
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def _app(metrics: Collector, checks: Mapping[str, Check]) -> Callable[..., Iterable[bytes]]:
    scrape = make_wsgi_app(metrics)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        try:
            return page_of(environ, start)
        except Exception as e:  # the library would print a traceback
            _log.error("metrics or health could not be told", exc_info=e)
            start("500 Internal Server Error", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"an error; the log has more\n"]

    def page_of(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        check = checks.get(environ["PATH_INFO"])
        if check is None:
            page: Iterable[bytes] = scrape(environ, start)
            return page
        is_good, text = check()
        start("200 OK" if is_good else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    return answer


def _server_class(host: str) -> type[_Server]:
    """A server for the host's address family. Raises OSError for a host that has no address."""

    class Server(_Server):
        address_family = socket.getaddrinfo(host, None)[0][0]

    return Server
