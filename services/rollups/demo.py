"""`moneystate demo rollups`: two weeks of 200 devices. One has a wrong clock, one is cut off for three days and then
sends what it has, and one falls silent. Pictures of them are left in the current folder."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.text import Text

from moneystate.devbroker.demo import environment, kill_with_children, read_all, run_job, stage
from moneystate.errors import BrokerError, SetupError
from moneystate.records.iso_time import to_ms
from moneystate.serving.client import Client, Target
from moneystate.state.v1 import state_pb2 as s
from moneystate.state.v1 import status_pb2
from services.rollups.cli.picture import curve_of, draw
from services.rollups.tiers import DAY, HOUR, MINUTE

DEVICES: Final = 200
DAYS: Final = 14
INTERVAL_MS: Final = 5 * MINUTE
PARTITIONS: Final = 2
WRONG, CUT_OFF, SILENT, USUAL = "device-3", "device-5", "device-9", "device-0"
CUT_OFF_DAYS: Final = (5, 8)
SILENT_DAY: Final = 10
JOB_S, UP_S, FLUSH_S = 1_200.0, 120.0, 60.0
LISTENING: Final = re.compile(r"listening on (\S+) \(")
TABLES: Final = """
[rollups]
zone = "Europe/Berlin"
interval = "5m"
readings_bound = "1s"
metrics = [
    { name = "temp", unit = "°C", digits = 1, percentiles = true, min = -50.0, max = 60.0 },
    { name = "energy", unit = "Wh", digits = 0, kind = "counter" },
]
"""


class Story(NamedTuple):
    title: str
    expected: Any
    actual: Any

    def holds(self) -> bool:
        return bool(self.expected == self.actual)


class Reading(NamedTuple):
    """`came`: when the broker gets it, in ms."""

    came: int
    device: str
    at: int
    temp: float
    energy: int


def readings(devices: int, start: int) -> Iterator[Reading]:
    """Yields readings in the order in which they arrive."""
    back = start + CUT_OFF_DAYS[1] * DAY
    held: list[Reading] = []
    for turn in range(DAYS * DAY // INTERVAL_MS):
        now = start + turn * INTERVAL_MS
        if now >= back and held:
            yield from [reading._replace(came=now) for reading in held]
            held = []
        for number in range(devices):
            reading = _reading(f"device-{number}", number, now, now - start)
            if reading.device == CUT_OFF and CUT_OFF_DAYS[0] * DAY <= now - start < CUT_OFF_DAYS[1] * DAY:
                held.append(reading)
            elif reading.device != SILENT or now - start < SILENT_DAY * DAY:
                yield reading


def _reading(device: str, number: int, now: int, since_start: int) -> Reading:
    hours = since_start / HOUR + number % 5
    temp = 15 + number % 7 + 8 * math.sin(math.tau * hours / 24) + math.sin(hours * (3 + number % 3))
    ahead = DAY if device == WRONG else 0
    return Reading(now, device, now + ahead, round(temp, 1), since_start // INTERVAL_MS * (5 + number % 4))


def demo(devices: int = DEVICES) -> bool:
    """Shows the stories, and returns whether all held."""
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    out.print(f"[bold]{devices} devices, {DAYS} days[/] through a real broker and the real job, configured as:")
    out.print(Text(TABLES.strip() + "\n", "dim"))
    start = (time.time_ns() // 1_000_000 - DAYS * DAY - HOUR) // HOUR * HOUR
    with stage(err, "512m") as (folder, servers):
        sent = send(servers, devices, start)
        err.print(f"moneystate run rollups: {sent:,} readings ...")
        run_job("rollups", TABLES, servers, folder, ["--max-records-per-batch", "100000"], JOB_S)
        letters = [record.reason for record in read_all(servers, "rollups-dead-letters")]
        with server(servers, folder) as client:
            stories = [*told(client, start, devices), quarantined(letters)]
            pictures = [pictured(client, device, start) for device in (USUAL, CUT_OFF, SILENT)]
    for story in stories:
        verdict = "[bold green]held[/]" if story.holds() else f"[bold white on red]BROKEN[/]: found {story.actual}"
        out.print(f"{story.title}: {verdict}")
    out.print(f"pictures: {', '.join(map(str, pictures))}")
    held = all(story.holds() for story in stories)
    out.print(f"{len(stories)} stories held." if held else "[bold white on red]A promise was broken.[/]")
    return held


def send(servers: str, devices: int, start: int) -> int:
    """Sends readings with the times of their arrival, which the topic therefore takes from its producers."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.create_topics([NewTopic("readings", PARTITIONS, 1, config={"retention.ms": "-1"})]).values():
        future.result()
    settings = {"enable.idempotence": True, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, **settings})
    sent = 0
    for reading in readings(devices, start):
        metrics = {"temp": reading.temp, "energy": reading.energy}
        value = json.dumps({"deviceId": reading.device, "at": reading.at, "metrics": metrics}).encode()
        partition = int(reading.device.partition("-")[2]) % PARTITIONS
        producer.produce("readings", value, reading.device, partition=partition, timestamp=reading.came)
        sent += 1
        if sent % 10_000 == 0:
            producer.poll(0)
    if producer.flush(FLUSH_S):
        raise BrokerError("expected to send the demo's readings, but the broker did not take them.", "run it again.")
    return sent


@contextmanager
def server(servers: str, folder: Path) -> Iterator[Client]:
    """The query server, once it has read the changelog."""
    words = ["serve", "--service", "rollups", "--listen", "127.0.0.1:0", "--config", str(folder / "demo.toml")]
    words += ["--bootstrap-servers", servers, "--data", str(folder / "replica")]
    with started(folder, "server", words) as log:
        match = until(lambda: LISTENING.search(log.read_text(errors="replace")))
        with Client(Target(match[1]), UP_S) as client:
            until(lambda: client.call("Status.GetStatus", status_pb2.GetStatusRequest()).caught_up)
            yield client


@contextmanager
def started(folder: Path, name: str, words: Sequence[str]) -> Iterator[Path]:
    """A command in the background, and the file that it logs to."""
    log = folder / f"{name}-log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "moneystate.cli.main", *words], stdin=subprocess.DEVNULL, stdout=written,
            stderr=written, cwd=folder, env={**environment(folder), "PYTHONUNBUFFERED": "1"}, start_new_session=True,
        )  # fmt: skip
    try:
        yield log
    finally:
        kill_with_children(process)


def until(condition: Any, expected: str = f"moneystate serve: expected to answer within {UP_S:.0f} s.") -> Any:
    """Its first true value. Raises SetupError, which says what was expected."""
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise SetupError(expected, "run the demo again.")


def ask(client: Client, query: str, **arguments: Any) -> Any:
    answer = client.call("State.Call", s.CallRequest(query=query, arguments=json.dumps(arguments)))
    return json.loads(answer.result.json)


def told(client: Client, start: int, devices: int) -> Iterator[Story]:
    span = {"from": start, "to": start + DAYS * DAY}
    usual = ask(client, "series", device=USUAL, metric="temp", tier="1h", **span)
    yield Story(
        f"{USUAL} has a value for every five minutes of {DAYS} days", (DAYS * 24, 1.0, []),
        (len(usual["starts"]), min(usual["completeness"]), usual["gaps"]),
    )  # fmt: skip
    late = ask(client, "series", device=CUT_OFF, metric="energy", tier="1h", **span)
    yield Story(
        f"{CUT_OFF} was cut off for three days, and nothing is missing", (1.0, [], 5 + 5 % 4),
        (min(late["completeness"]), late["gaps"], round(max(late["increases"]) / 12)),
    )  # fmt: skip
    silent = ask(client, "silent", since=start + (SILENT_DAY + 1) * DAY)
    yield Story(f"{SILENT} is known to be silent", [SILENT], [its["device"] for its in silent])
    top = ask(client, "top", metric="temp", by="count", limit=devices, **span)
    values = {its["device"]: its["value"] for its in top}
    yield Story(
        f"{WRONG} with its wrong clock makes no other one late", devices - 1,
        sum(value in (DAYS * DAY / INTERVAL_MS, SILENT_DAY * DAY / INTERVAL_MS) for value in values.values()),
    )  # fmt: skip


def quarantined(letters: list[str]) -> Story:
    expected = ["ahead"] * (DAYS * DAY // INTERVAL_MS)
    return Story(f"every reading of {WRONG} is a dead letter", expected, letters)


def pictured(client: Client, device: str, start: int) -> Path:
    picture = Path(f"rollups-{device}.svg")
    series = ask(client, "series", device=device, metric="temp", to=start + DAYS * DAY, **{"from": start})
    draw(curve_of(series, to_ms), picture)
    return picture
