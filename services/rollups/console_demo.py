"""`moneystate demo console`: devices that send readings, the real job, a query server, and the console on top."""

from __future__ import annotations

import json
import math
import re
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console

from moneystate.devbroker.demo import stage
from moneystate.devbroker.server_process import free_port
from moneystate.stop_signals import stop_signals
from services.rollups.demo import TABLES, server, started, until
from services.rollups.tiers import MINUTE

DEVICES: Final = 12
BEFORE_MS: Final = 6 * 60 * MINUTE  # of readings, before the story goes on live
EVERY_MS: Final = MINUTE
STEP_S: Final = 1.0
WRONG: Final = "device-3"  # its clock is a day ahead
TOPIC: Final = "readings"
ADDRESS: Final = re.compile(r"listening on (https?://[^/]+/)")
UP_S: Final = 60.0


def demo() -> bool:
    """Runs until Ctrl-C."""
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    with stage(err) as (folder, servers), ExitStack() as stack:
        (folder / "demo.toml").write_text(TABLES)
        story = Story(servers)
        story.before()
        err.print("starting the job, a query server and the console ...")
        stack.enter_context(started(folder, "run", run_words(folder, servers)))
        client = stack.enter_context(server(servers, folder))
        words = ["console", "--bootstrap-servers", servers, "--state", client.target.address, "--allow-writes"]
        words += ["--show-checkpoint", str(folder / "checkpoint"), "--config", str(folder / "demo.toml")]
        log = stack.enter_context(started(folder, "console", [*words, "--listen", "127.0.0.1:0"]))
        out.print(f"[bold]{address_in(log)}[/] shows {DEVICES} devices whose readings come in now. Ctrl-C ends it.")
        story.go_on()
    return True


def run_words(folder: Path, servers: str) -> list[str]:
    words = ["run", "rollups", "--local", "--bootstrap-servers", servers, "--config", str(folder / "demo.toml")]
    metrics = ["--metrics-port", str(free_port()), "--announce", "127.0.0.1"]
    return [*words, "--checkpoint", str(folder / "checkpoint"), *metrics]


def address_in(log: Path) -> str:
    """The address that the console prints. Raises SetupError."""
    expected = f"the console: expected its address within {UP_S:.0f} s."
    return str(until(lambda: ADDRESS.search(log.read_text(errors="replace")), expected)[1])


class Story:
    """Readings, a minute of the devices' time at once before the demo, and then each second."""

    def __init__(self, servers: str) -> None:
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        for future in admin.create_topics([NewTopic(TOPIC, 2, 1, config={"retention.ms": "-1"})]).values():
            future.result()
        self.producer = Producer(
            {"bootstrap.servers": servers, "log_level": 0, "linger.ms": 20, "enable.idempotence": True}
        )

    def before(self) -> None:
        now = time.time_ns() // 1_000_000
        for at in range((now - BEFORE_MS) // EVERY_MS * EVERY_MS, now, EVERY_MS):
            self._send(at, at)
        self.producer.flush(UP_S)

    def go_on(self) -> None:
        """Sends readings until SIGTERM or Ctrl-C."""
        with stop_signals() as stop:
            while not stop.wait(STEP_S):
                now = time.time_ns() // 1_000_000
                self._send(now, now)
                self.producer.poll(0)

    def _send(self, at: int, came: int) -> None:
        for number in range(DEVICES):
            device = f"device-{number}"
            hours = at / (60 * MINUTE) + number
            temp = round(15 + number % 7 + 8 * math.sin(math.tau * hours / 24) + math.sin(hours * 9), 1)
            ahead = 24 * 60 * MINUTE if device == WRONG else 0
            metrics = {"temp": temp, "energy": at // MINUTE * (5 + number % 4)}
            value = json.dumps({"deviceId": device, "at": at + ahead, "metrics": metrics}).encode()
            self.producer.produce(TOPIC, value, device, partition=number % 2, timestamp=came)
