"""What open browsers cost a job: a backlog by turns without a console, and beside one with many pages that follow it.

The pages are connections to the stream of the first page, as browsers keep them. On a machine that does other things,
too, throughput differs more between two equal runs than a console could cost. So the table has the processor time, too,
that an event takes of the job, the broker and the console together: where processors are the limit, the throughput
falls by as much as this grows. Each pair begins with the other one of both.
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
from statistics import median
from typing import Final, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import Result
from tests.bench.load import Load
from tests.bench.services import ROOT, run_service, send
from tests.bench.tree import Tree

LISTENING: Final = re.compile(r"listening on http://([0-9.]+):(\d+)/")
UP_S: Final = 60.0
WARM: Final = "warm-"


class Cost(NamedTuple):
    """The cost of the console. `seconds`: of processor time; `events`: that all pages got."""

    seconds: float
    cores: float
    rss_mb: int
    events: int


class Run(NamedTuple):
    """A run of one backlog. `broker_s`, `console_s`: processor time, as that of the job."""

    job: Result
    broker_s: float
    console_s: float
    events: int

    @property
    def us_an_event(self) -> float:
        return (self.job.cpu_s + self.broker_s + self.console_s) / self.events * 1e6

    @property
    def us_of_job(self) -> float:
        return self.job.cpu_s / self.events * 1e6


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
        costs.append(Cost(used, used / seconds, tree.rss // 2**20, opened.events))


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--service", default="stock")
    p.add_argument("--events", type=int, default=400_000, help="of each run")
    p.add_argument("--flag", action="append", default=[], help="for the runs of the job, such as --flag=--local")
    p.add_argument("--pages", type=int, default=50)
    p.add_argument("--pairs", type=int, default=5)
    a = p.parse_args(arguments)
    load: Load = import_module(f"tests.services.{a.service}.load").LOAD
    alone: list[Run] = []
    beside: list[Run] = []
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        send(broker.bootstrap_servers, load, a.events, WARM)
        _run(broker, WARM, a.service, load, a.flag)  # it does not count: the broker is slower at first
        for number in range(a.pairs):
            for with_pages in (False, True) if number % 2 else (True, False):
                prefix = f"{'beside' if with_pages else 'alone'}{number}-"
                send(broker.bootstrap_servers, load, a.events, prefix)
                if with_pages:
                    with watched(broker.bootstrap_servers, prefix, a.pages, costs):
                        job, broker_s = _run(broker, prefix, a.service, load, a.flag)
                    beside.append(Run(job, broker_s, costs[-1].seconds, a.events))
                else:
                    alone.append(Run(*_run(broker, prefix, a.service, load, a.flag), 0.0, a.events))
    Console(width=130).print(_table(alone, beside, costs, a.pages))


def _run(broker: DevBroker, prefix: str, service: str, load: Load, flags: list[str]) -> tuple[Result, float]:
    """The job's result, and the broker's processor time."""
    process = psutil.Process(broker.pid)
    before = process.cpu_times()
    job = run_service(broker.bootstrap_servers, prefix, service, load, flags)
    after = process.cpu_times()
    return job, after.user + after.system - before.user - before.system


def _table(alone: list[Run], beside: list[Run], costs: list[Cost], pages: int) -> Table:
    table = Table(
        "pair", "outputs/s alone", f"beside {pages} pages", "ratio", "job us/event", "beside", "all us/event", "beside",
        "ratio", "console cores", "MB", "events to pages",
    )  # fmt: skip
    for number, (one, other, cost) in enumerate(zip(alone, beside, costs, strict=True)):
        rates = (f"{one.job.rate:,.0f}", f"{other.job.rate:,.0f}", f"{other.job.rate / one.job.rate:.2f}")
        job = (f"{one.us_of_job:.1f}", f"{other.us_of_job:.1f}")
        whole = (f"{one.us_an_event:.1f}", f"{other.us_an_event:.1f}", f"{other.us_an_event / one.us_an_event:.3f}")
        table.add_row(str(number), *rates, *job, *whole, f"{cost.cores:.2f}", str(cost.rss_mb), f"{cost.events:,}")
    pairs = list(zip(alone, beside, strict=True))
    table.add_row(
        "median", "", "", f"{median(other.job.rate / one.job.rate for one, other in pairs):.2f}",
        *(f"{median(run.us_of_job for run in runs):.1f}" for runs in (alone, beside)),
        *(f"{median(run.us_an_event for run in runs):.1f}" for runs in (alone, beside)),
        f"{median(other.us_an_event / one.us_an_event for one, other in pairs):.3f}",
    )  # fmt: skip
    return table
