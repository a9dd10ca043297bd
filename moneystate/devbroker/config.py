"""The broker's configuration: one KRaft node, broker and controller, on loopback only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NODE_ID = 1


def server_properties(data_dir: Path, port: int, controller_port: int, overrides: Mapping[str, str]) -> str:
    """The text of `server.properties`; `overrides` win over the settings given here."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data_dir / "data"),
        # Kafka's own topics default to three replicas and 50 partitions: impossible, and slow to start, on one node.
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "8",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        # A topic that is missing is a mistake to be told, not to be made up for with one partition.
        "auto.create.topics.enable": "false",
        # Wait for no further members: consumers get their partitions at once.
        "group.initial.rebalance.delay.ms": "0",
        # What was killed is soon out of the way: consumers may ask for sessions of less than 6 s, and transactions that
        # are over their time are looked for every second, not every ten.
        "group.min.session.timeout.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        # The default of 128 MB would be a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": "16777216",
        # After a kill the controller lets the broker's successor in only when the dead one's session has ended (9 s by
        # default). Not much shorter: a broker starved of its cores for that long is fenced and has its clients retry.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "num.network.threads": "2",
        "num.io.threads": "4",
    }
    settings.update(overrides)
    return "".join(f"{key}={value}\n" for key, value in settings.items())
