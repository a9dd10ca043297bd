"""Workers of deliveries beside Watermill, which posts the same bodies to the same receiver, by turns.

Watermill reads Kafka and posts, with retries in memory (`go/watermill/main.go`). It does not sign and keeps no history.
A partition waits for each of its requests, so it is measured over several numbers of partitions.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moneystate.devbroker import DevBroker
from tests.bench.deliver import (
    BODY,
    WITHIN_S,
    Measured,
    Receiver,
    by_turns,
    measure_client,
    measure_workers,
    measured,
    parser_of,
)
from tests.job.harness import JobProcess

SOURCE: Final = Path(__file__).resolve().parent / "go" / "watermill"
TOPIC: Final = "webhooks"


def built(folder: Path) -> Path:
    """The program. Fetches the modules that are missing."""
    go = shutil.which("go")
    assert go, "go: expected a compiler of Go, found none. Install it, or do without this benchmark."
    subprocess.run([go, "build", "-trimpath", "-o", f"{folder}/", "."], cwd=SOURCE, check=True)
    return folder / "watermill"


def measure(program: Path, requests: int, endpoints: int, partitions: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="bench-") as made, Receiver() as receiver:
        folder = Path(made)
        with DevBroker(folder / "broker", heap="1g") as broker:
            _append(broker.bootstrap_servers, requests, endpoints, partitions)
            env = {"BOOTSTRAP": broker.bootstrap_servers, "TOPIC": TOPIC,
                   "RECEIVER": f"http://127.0.0.1:{receiver.port}"}  # fmt: skip
            with JobProcess([], folder, env, [str(program)]) as process:
                return measured(receiver, [process.process.pid], requests, process.err)


def _append(servers: str, requests: int, endpoints: int, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True})
    for number in range(requests):
        producer.produce(TOPIC, BODY, f"e{number % endpoints}".encode(), number % endpoints % partitions)
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0


def main(arguments: list[str]) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--peer-partitions", type=int, action="append", help="may be repeated (2, 50)")
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-go-") as folder:
        program = built(Path(folder))
        senders = {
            "moneystate deliver": partial(measure_workers, a.requests, a.endpoints, a.in_flight, 1, a.partitions),
            "aiohttp client": partial(measure_client, a.requests, a.in_flight),
        }
        for partitions in a.peer_partitions or [2, 50]:
            name = f"Watermill, {partitions} partitions"
            senders[name] = partial(measure, program, a.requests, a.endpoints, partitions)
        by_turns(senders, a.runs)
    print(f"{len(BODY)} bytes a body; Watermill does not sign and has no log")
