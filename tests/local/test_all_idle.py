"""Inputs that are all idle, as only a live run has them: the job goes on to the latest event. A replay and a bootstrap
that follow its checkpoint come to the same state."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.kafka.logs import Cluster
from tests.local.in_memory import Running, good
from tests.reference.builder import START_MS

MINUTE = 60_000
SERVICE = """
from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Noted:
    key: str
    at: ms.Millis


@dataclass(frozen=True)
class Told:
    key: str
    at: ms.Millis


@dataclass
class Count:
    n: int = 0


service = ms.Service("notes")
a = service.input("a", Noted, key="key", time="at", format="json")
b = service.input("b", Noted, key="key", time="at", format="json")
told = service.output("told", Told, key="key", format="json")
count = service.value("count", Count)


@service.on(a | b, count)
def take(ctx: ms.Context[None], e: Noted, count: Count) -> None:
    count.n += 1
    ctx.emit(told, Told(ctx.key, ctx.now))
"""


def test_a_run_that_went_on_while_all_was_idle_is_replayed_and_bootstrapped(
    memory_cluster: Cluster, tmp_path: Path
) -> None:
    """The last event of `a` is behind what had gone on without it: late, and so in the replay."""
    cluster = memory_cluster
    for topic in ("a", "b", "told"):
        cluster.create(topic)
    module, checkpoint = tmp_path / "notes.py", tmp_path / "checkpoint"
    module.write_text(SERVICE)
    service = f"{module}:service"
    good(["schemas", "release", service])
    servers = ("--bootstrap-servers", cluster.bootstrap_servers)
    run = [
        *(
            "run",
            "--local",
            service,
            "--topic-prefix",
            cluster.prefix,
            "--checkpoint",
            str(checkpoint),
            *servers,
            "--bound",
            "1s",
        ),
        *("--idle-timeout", "1s", "--partitions", "1", "--key-groups", "2", "--json"),
    ]

    def send(topic: str, *minutes: float) -> None:
        values = [json.dumps({"type": "Noted", "key": topic, "at": START_MS + int(m * MINUTE)}) for m in minutes]
        cluster.send(cluster.prefix + topic, [value.encode() for value in values])

    def times() -> list[float]:
        instants = [datetime.fromisoformat(json.loads(record.value or b"")["at"]) for record in cluster.read("told")]
        return sorted((round(time.timestamp() * 1000) - START_MS) / MINUTE for time in instants)

    send("a", 0)
    send("b", 120, 120.5)
    with Running(run) as job:
        job.wait_for(lambda: times() == [0, 120], "all but the last second has gone out")
        send("b", 121)
        job.wait_for(lambda: times() == [0, 120, 120.5], "a, which is idle, does not hold it back")
        done = job.stop()
    assert done.code == 0
    assert "all inputs are idle: the watermark went on to" in done.err
    with Running(run) as job:
        send("b", 121.5)
        send("a", 60)
        job.wait_for(lambda: len(times()) == 5, "and after a restart")
        assert job.stop().code == 0
    assert times()[3:] == pytest.approx([121 - 1 / 60, 121])  # the late one is at the watermark
    replay = ["verify-replay", "--checkpoint", checkpoint, "--service", service, "--json", "--quiet", *servers]
    verdict = good(replay).totals
    assert verdict["agrees"], verdict
    bootstrap = [
        *(
            "bootstrap",
            "--local",
            "--from",
            "kafka",
            "--out",
            tmp_path / "savepoint",
            "--service",
            service,
            "--bound",
            "1s",
        ),
        *("--topic-prefix", cluster.prefix, "--like", checkpoint, "--key-groups", "2", "--partitions", "1", *servers),
        *("--json", "--quiet"),
    ]
    assert good(bootstrap).totals["fingerprint"] == verdict["fingerprint"]
