"""What open browsers cost a job: a backlog by turns without a console, and beside one with many pages that follow it.

The pages are connections to the stream of the first page, as browsers keep them.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import Result
from tests.bench.load import Load
from tests.bench.services import ROOT, run_service, send
from tests.bench.tree import Tree

LISTENING: Final = re.compile(r"listening on http://([0-9.]+):(\d+)/")
UP_S: Final = 60.0


class Cost(NamedTuple):
    """Of the console. `events`: that all pages got."""

    cores: float
    rss_mb: int
    events: int


class Pages:
    """Connections that are kept open, and what comes over them."""

    def __init__(self, host: str, port: int, count: int) -> None:
        self.events = 0
        self.sockets = [socket.create_connection((host, port)) for _ in range(count)]
        for number, opened in enumerate(self.sockets):
            opened.sendall(f"GET /live/services HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            threading.Thread(target=self._read, args=(opened,), daemon=True, name=f"page-{number}").start()

    def _read(self, opened: socket.socket) -> None:
        while part := opened.recv(65_536):
            self.events += part.count(b"event: services")

    def close(self) -> None:
        for opened in self.sockets:
            opened.shutdown(socket.SHUT_RDWR)


@contextmanager
def watched(servers: str, prefix: str, pages: int, costs: list[Cost]) -> Iterator[None]:
    """Until the end of the block; then `costs` has what it took."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        log = Path(folder) / "log"
        words = ["console", "--bootstrap-servers", servers, "--topic-prefix", prefix, "--listen", "127.0.0.1:0"]
        with log.open("wb") as written:
            process = subprocess.Popen([sys.executable, "-m", "moneystate.cli.main", *words], stderr=written, cwd=ROOT)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        deadline = time.monotonic() + UP_S
        while not (match := LISTENING.search(log.read_text(errors="replace"))):
            if time.monotonic() > deadline:
                sys.exit(f"the console did not start: {log.read_text(errors='replace')}")
            time.sleep(0.1)
        opened = Pages(match[1], int(match[2]), pages)
        stack.callback(opened.close)
        tree, began = Tree(process.pid), time.monotonic()
        before = tree.root.cpu_times()
        yield
        after = tree.root.cpu_times()
        tree.end()
        seconds = time.monotonic() - began
        used = after.user + after.system - before.user - before.system
        costs.append(Cost(used / seconds, tree.rss // 2**20, opened.events))


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--service", default="stock")
    p.add_argument("--events", type=int, default=400_000, help="of each run")
    p.add_argument("--pages", type=int, default=50)
    p.add_argument("--runs", type=int, default=2, help="of each, by turns")
    a = p.parse_args(arguments)
    load: Load = import_module(f"tests.services.{a.service}.load").LOAD
    alone: list[Result] = []
    beside: list[Result] = []
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        servers = broker.bootstrap_servers
        for number in range(a.runs):
            send(servers, load, a.events, f"alone{number}-")
            alone.append(run_service(servers, f"alone{number}-", a.service, load, []))
            prefix = f"beside{number}-"
            send(servers, load, a.events, prefix)
            with watched(servers, prefix, a.pages, costs):
                beside.append(run_service(servers, prefix, a.service, load, []))
    table = Table(
        "run", "outputs/s alone", f"beside {a.pages} pages", "ratio", "console cores", "MB", "events to pages"
    )
    for number, (one, other, cost) in enumerate(zip(alone, beside, costs, strict=True)):
        rates = (f"{one.rate:,.0f}", f"{other.rate:,.0f}", f"{other.rate / one.rate:.2f}")
        table.add_row(str(number), *rates, f"{cost.cores:.2f}", str(cost.rss_mb), f"{cost.events:,}")
    Console(width=130).print(table)
