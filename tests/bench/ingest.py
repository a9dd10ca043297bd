"""Requests a second of `moneystate ingest` on one core, beside uvicorn alone with the same body.

Both are processes that one core runs, by turns. The clients and the broker have the other cores. uvicorn's application
reads the body and answers with a fixed text, in the same loop and with the same parser. The ratio is told twice: of
the rates, which the other cores may bound, and of the processor time for a request, which they do not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench import bare_uvicorn
from tests.ingest.harness import Server, payment
from tests.ports import free_port
from tests.waiting import until

WANTED: Final = 0.35
CONNECTIONS: Final = 128
WARM_S: Final = 2.0


class Measured(NamedTuple):
    rate: float  # requests a second
    cpu_us: float  # of the process, for a request
    share: float  # of its core


class _Connection(asyncio.Protocol):
    """Sends the same request again as soon as it is answered."""

    def __init__(self, request: bytes, counts: list[int]) -> None:
        self.request = request
        self.counts = counts  # answers, and those among them that are not 202

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, body = self.buffer.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return
        self.buffer = b""
        self.counts[0] += 1
        self.counts[1] += not head.startswith(b"HTTP/1.1 202")
        self.transport.write(self.request)


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])


async def _load(port: int, pid: int, seconds: float, connections: int) -> Measured:
    body = json.dumps(payment(1)).encode()
    lines = ["POST /v1/payments HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    request = "\r\n".join([*lines, "", ""]).encode() + body
    counts = [0, 0]
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(request, counts), "127.0.0.1", port)
    process = psutil.Process(pid)
    await asyncio.sleep(WARM_S)
    first, began_s, cpu = counts[0], time.monotonic(), process.cpu_times()
    await asyncio.sleep(seconds)
    answered, took_s, now = counts[0] - first, time.monotonic() - began_s, process.cpu_times()
    assert not counts[1], f"{counts[1]} answers were not 202"
    cpu_s = now.user + now.system - cpu.user - cpu.system
    return Measured(answered / took_s, cpu_s / answered * 1e6, cpu_s / took_s)


@contextmanager
def _bare(port: int) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-m", bare_uvicorn.__name__, str(port)])
    try:
        until(lambda: _answers(port), lambda: "uvicorn does not listen", 30)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _pin(pid: int, core: int) -> None:
    """All threads of the process."""
    for thread in psutil.Process(pid).threads():
        os.sched_setaffinity(thread.id, {core})


def measure(port: int, pid: int, core: int, seconds: float, connections: int) -> Measured:
    _pin(pid, core)
    return asyncio.run(_load(port, pid, seconds, connections))


def main(arguments: Sequence[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--seconds", type=float, default=10.0, help="of each turn")
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--connections", type=int, default=CONNECTIONS)
    a = p.parse_args(arguments)
    cores = sorted(os.sched_getaffinity(0))
    own, others = cores[0], set(cores[1:]) or set(cores)
    os.sched_setaffinity(0, others)  # inherited by the broker
    measured: dict[str, list[Measured]] = {"uvicorn": [], "ingest": []}
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        flags = ("--format", "payments=json", "--no-pages")
        with Server(broker.bootstrap_servers, "bench-", *flags) as server:
            for _ in range(a.turns):
                port = free_port()
                with _bare(port) as pid:
                    measured["uvicorn"].append(measure(port, pid, own, a.seconds, a.connections))
                measured["ingest"].append(measure(server.port, server.process.pid, own, a.seconds, a.connections))
    show(measured, multiprocessing.cpu_count())


def show(measured: dict[str, list[Measured]], cores: int) -> None:
    table = Table("medians", "requests/s", "CPU us/request", "of its core")
    middle = {name: Measured(*map(statistics.median, zip(*runs, strict=True))) for name, runs in measured.items()}
    for name, m in middle.items():
        table.add_row(name, f"{m.rate:,.0f}", f"{m.cpu_us:.0f}", f"{m.share:.0%}")
    console = Console(width=130)
    console.print(table)
    bare, ours = middle["uvicorn"], middle["ingest"]
    console.print(
        f"ingest / uvicorn: {ours.rate / bare.rate:.2f} of the requests/s, {bare.cpu_us / ours.cpu_us:.2f} by "
        f"processor time (wanted: {WANTED}), on a machine of {cores} cores"
    )
