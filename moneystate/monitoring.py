"""The HTTP endpoint of a running command: Prometheus metrics, labelled with the service that they are about."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moneystate.errors import SetupError


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


class _Silent(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Scrapes are no news."""


def expose(host: str, port: int, metrics: Collector) -> None:
    """Answers from a thread until the process ends. Raises SetupError."""
    try:
        server = make_server(host, port, make_wsgi_app(metrics), _server_class(host), _Silent)
    except OSError as e:
        raise SetupError(
            f"--metrics-host {host}, --metrics-port {port}: expected a free port of this machine, but {e.strerror}.",
            "choose another.",
        ) from None
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def _server_class(host: str) -> type[_Server]:
    """A server for the host's address family. Raises OSError for a host that has no address."""

    class Server(_Server):
        address_family = socket.getaddrinfo(host, None)[0][0]

    return Server
