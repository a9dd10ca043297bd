"""Three Kafka brokers on this machine, each with its own folder. Topics have three replicas; two must be in sync."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from moneystate.devbroker import DevBroker
from moneystate.devbroker.broker import new_cluster_id
from moneystate.devbroker.jars import kafka_jars
from moneystate.devbroker.java import find_java
from tests.ports import free_ports

NODES = 3
WITHIN_S = 120.0
POLL_S = 0.1
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "5000",
    "controlled.shutdown.enable": "true",
}


class ThreeBrokers:
    """Each node is broker and controller, so that two of them are a quorum."""

    def __init__(self, folder: Path, environments: Sequence[Mapping[str, str]] = ({},) * NODES) -> None:
        """`environments`: of the nodes' processes."""
        self.folder = folder
        self.environments = environments
        self.ports, self.controllers = free_ports(NODES), free_ports(NODES)
        self.cluster_id = new_cluster_id()
        self.nodes = [self._node(number) for number in range(NODES)]
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def _node(self, number: int) -> DevBroker:
        port, controller = self.ports[number], self.controllers[number]
        voters = ",".join(f"{n + 1}@127.0.0.1:{port}" for n, port in enumerate(self.controllers))
        settings = {
            **REPLICATED,
            "node.id": str(number + 1),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        }
        folder = self.folder / f"node-{number + 1}"
        environment = self.environments[number]
        return DevBroker(
            folder, port, heap="384m", settings=settings, cluster_id=self.cluster_id, environment=environment
        )

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor(NODES) as threads:
                list(threads.map(DevBroker.start, self.nodes))
            self.wait_until_whole()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()

    def leader_of(self, topic: str, partition: int) -> int:
        """The number of the node, from 0."""
        leader = self.admin.list_topics(topic, timeout=30).topics[topic].partitions[partition].leader
        return int(leader) - 1

    def replace(self, number: int) -> None:
        """A new machine takes the place of one that is gone: the same id, and an empty disk."""
        self.nodes[number].kill()
        shutil.rmtree(self.nodes[number].log_file.parent)
        self.nodes[number] = self._node(number)
        self.nodes[number].start()

    def wait_until_whole(self) -> None:
        """Until all brokers are there and all replicas are in sync."""
        self._wait(self._is_whole, "all replicas in sync")

    def _is_whole(self) -> bool:
        metadata = self.admin.list_topics(timeout=30)
        partitions = [p for topic in metadata.topics.values() for p in topic.partitions.values()]
        return len(metadata.brokers) == NODES and all(len(p.isrs) == NODES and p.leader > 0 for p in partitions)

    def limit(self, bytes_s: int) -> None:
        """Quotas of every client for what it writes and reads, in bytes a second of each broker; 0: none."""
        names = ("producer_byte_rate", "consumer_byte_rate")
        change = (
            ("--add-config", ",".join(f"{name}={bytes_s}" for name in names))
            if bytes_s
            else ("--delete-config", ",".join(names))
        )
        command = [
            *(str(find_java()), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", str(kafka_jars() / "*"), "kafka.admin.ConfigCommand"),
            *("--bootstrap-server", self.bootstrap_servers, "--alter", *change),
            *("--entity-type", "clients", "--entity-default"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _wait(self, condition: Callable[[], bool], description: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not _holds(condition):
            assert time.monotonic() < deadline, f"not within {WITHIN_S:.0f} s: {description}"
            time.sleep(POLL_S)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except KafkaException:  # no broker answers at this moment
        return False
