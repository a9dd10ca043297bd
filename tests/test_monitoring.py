"""The endpoint of metrics and health."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moneystate import log, monitoring
from moneystate.errors import SetupError
from moneystate.monitoring import Check, Health, Labelled
from tests.log_lines import parsed
from tests.ports import free_port
from tests.scrape import health, scraped

FAILED = "metrics or health could not be told"


def good() -> Health:
    return Health(True, "a: ready")


def bad() -> Health:
    return Health(False, "b: starting")


def exposed(live: Check, ready: Check) -> int:
    registry, port = CollectorRegistry(), free_port()
    Gauge("moneystate_test", "A test's.", registry=registry).set(7)
    monitoring.expose("127.0.0.1", port, Labelled({"a": registry}), live, ready)
    return port


def test_one_port_has_metrics_and_health() -> None:
    port = exposed(good, bad)
    assert scraped(port).values("moneystate_test") == {(): 7.0}
    assert health(port, "/livez") == (200, "a: ready")
    assert health(port, "/readyz") == (503, "b: starting")


def test_several_jobs_are_ready_if_all_are() -> None:
    port = exposed(monitoring.all_of([good, good]), monitoring.all_of([good, bad]))
    assert health(port, "/livez") == (200, "a: ready\na: ready")
    assert health(port, "/readyz") == (503, "a: ready\nb: starting")


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid"])
def test_a_port_that_is_taken_and_a_host_that_is_not_here_are_refused(host: str) -> None:
    port = exposed(good, good)
    with pytest.raises(SetupError, match=f"--metrics-host {host}, --metrics-port {port}: expected a free port"):
        monitoring.expose(host, port, Labelled({}), good, good)


class Fails(Collector):
    def collect(self) -> Iterable[Metric]:
        raise ValueError("user-eve")


def test_a_request_that_fails_is_a_line_of_the_log_and_the_next_one_is_answered(
    capfd: pytest.CaptureFixture[str],
) -> None:
    log.set_up()
    port = free_port()
    monitoring.expose("127.0.0.1", port, Fails(), good, good)
    for rest in (b"GET /metrics HTTP/1.0\r\n\r\n", b"GET / HTTP/1.0\r\nContent-Length: \xb2\r\n\r\n", b"\xff" * 70_000):
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.sendall(rest)
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            caller.recv(1)  # then it hangs up, in the middle of the answer
    assert health(port, "/livez") == (200, "a: ready")
    lines = parsed(capfd.readouterr().err)
    assert {(line["event"], line["exception"]) for line in lines} == {(FAILED, "builtins.ValueError")}
