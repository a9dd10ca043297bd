"""Queries of rollups over a year, from a replica that is served: delays at fixed rates, which do not wait for answers.

A job makes the state from a log of devices with a reading an hour and ten metrics. Then `moneystate serve` follows its
changelog, and a client in this process asks for days as a series, then for hours as packed columns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.records.iso_time import from_ms
from moneystate.state.v1 import state_pb2, state_pb2_grpc
from tests.bench.load import Load, Record
from tests.bench.rollups_steady import METRICS
from tests.bench.services import ROOT, run_service, send
from tests.ports import free_port
from tests.scrape import health
from tests.waiting import until

START_MS: Final = 1_735_689_600_000
HOUR_MS: Final = 3_600_000
YEAR_H: Final = 8_784
POINTS_OF_HOURS: Final = 10_000
CALL_S: Final = 10.0
UP_S: Final = 600.0
RULES: Final = """
[rollups]
order = "at"
interval = "1h"
metrics = [
    { name = "percent-*", digits = 1, percentiles = true },
    { name = "counter-*", digits = 0, kind = "counter" },
    { name = "*" },
]
"""


class Asked(NamedTuple):
    name: str
    rate: int
    delays_ms: list[float]
    result_bytes: int


def load_of(devices: int) -> Load:
    def records(events: int) -> Iterator[Record]:
        chance = random.Random(1)
        for n in range(events):
            hour, device = divmod(n, devices)
            values = {name: hour if m == 2 else round(50 + chance.gauss(0, 5), 3) for m, name in enumerate(METRICS)}
            reading = {"deviceId": f"device-{device}", "at": from_ms(START_MS + hour * HOUR_MS), "metrics": values}
            yield Record("readings", f"device-{device}", json.dumps(reading).encode())

    return Load(RULES, ("readings",), "rollups-1d", records)


def kinds(devices: int, days: int, chance: random.Random) -> dict[str, Iterator[tuple[str, dict[str, Any]]]]:
    """Query and arguments of one call after the other, by what it is called."""
    end_ms = START_MS + days * 24 * HOUR_MS

    def calls(query: str, from_ms: int, **more: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        while True:
            names = {"device": f"device-{chance.randrange(devices)}", "metric": chance.choice(METRICS)}
            yield query, {**names, "from": from_ms, "to": end_ms, **more}

    return {
        "365 days": calls("series", end_ms - 365 * 24 * HOUR_MS),
        f"{YEAR_H:,} hours packed": calls("series_packed", end_ms - YEAR_H * HOUR_MS, points=POINTS_OF_HOURS),
    }


async def ask(address: str, name: str, calls: Iterator[tuple[str, dict[str, Any]]], rate: int, seconds: float) -> Asked:
    """The delay of a call counts from when it was due."""
    delays: list[float] = []
    sizes: list[int] = []
    async with grpc.aio.insecure_channel(address) as channel:
        stub = state_pb2_grpc.StateStub(channel)  # type: ignore[no-untyped-call]

        async def one(due_s: float) -> None:
            query, arguments = next(calls)
            await asyncio.sleep(due_s - time.monotonic())
            request = state_pb2.CallRequest(query=query, arguments=json.dumps(arguments))
            answer = await stub.Call(request, timeout=CALL_S)
            delays.append((time.monotonic() - due_s) * 1000)
            sizes.append(len(answer.result.json))

        began = time.monotonic()
        await asyncio.gather(*(one(began + n / rate) for n in range(int(rate * seconds))))
    return Asked(name, rate, sorted(delays), sizes[-1])


def show(results: list[Asked]) -> None:
    table = Table("query", "a second", "p50 ms", "p99 ms", "most ms", "calls", "JSON bytes")
    for r in results:
        p50, p99 = (r.delays_ms[int(len(r.delays_ms) * share)] for share in (0.5, 0.99))
        figures = (f"{p50:.1f}", f"{p99:.1f}", f"{r.delays_ms[-1]:.1f}", f"{len(r.delays_ms):,}", f"{r.result_bytes:,}")
        table.add_row(r.name, str(r.rate), *figures)
    Console(width=130).print(table)


def served(servers: str, folder: Path, kinds: dict[str, Iterator[tuple[str, dict[str, Any]]]], a: Any) -> list[Asked]:
    rules, port, metrics = folder / "rollups.toml", free_port(), free_port()
    rules.write_text(RULES)
    command = [sys.executable, "-m", "moneystate.cli.main", "serve", "--service", "rollups", "--config", str(rules)]
    command += ["--bootstrap-servers", servers, "--data", str(folder / "data"), "--listen", f"127.0.0.1:{port}"]
    command += ["--metrics-port", str(metrics), *a.flags]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        until(lambda: health(metrics)[0] == 200, lambda: "the server does not catch up", UP_S)
        results = []
        for (name, calls), rate in zip(kinds.items(), (a.rate, a.packed_rate), strict=True):
            asyncio.run(ask(f"127.0.0.1:{port}", name, calls, rate, 2.0))  # so that both are warm
            results.append(asyncio.run(ask(f"127.0.0.1:{port}", name, calls, rate, a.seconds)))
        return results
    finally:
        process.terminate()
        process.wait()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("flags", nargs="*", help="after --: flags for moneystate serve")
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--days", type=int, default=400)
    parser.add_argument("--rate", type=int, default=200, help="years of days a second")
    parser.add_argument("--packed-rate", type=int, default=20, help="years of hours a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each")
    a = parser.parse_args(arguments)
    load, events = load_of(a.devices), a.devices * a.days * 24
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        tempfile.TemporaryDirectory(prefix="bench-broker-") as logs,
        DevBroker(Path(logs), heap="1g") as broker,
    ):
        send(broker.bootstrap_servers, load, events)
        done = run_service(broker.bootstrap_servers, "", "rollups", load, [])
        print(f"{events / done.wall_s:,.0f} readings/s with the start, {done.outputs:,} days put out", file=sys.stderr)
        results = served(broker.bootstrap_servers, Path(folder), kinds(a.devices, a.days, random.Random(2)), a)
    show(results)
