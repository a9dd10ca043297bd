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
        # Kafka's internal topics default to three replicas, impossible on one node, and 50 partitions, slow to start.
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "8",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        # A missing topic is an error. It must not be created silently with one partition.
        "auto.create.topics.enable": "false",
        # Do not wait for further members, so that consumers get their partitions at once.
        "group.initial.rebalance.delay.ms": "0",
        # Killed clients should be out of the way soon: consumers may have session timeouts below 6 s, and the broker
        # checks for expired transactions every second, not every ten.
        "group.min.session.timeout.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        # The default of 128 MB would be a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": "16777216",
        # After a kill, the controller admits the next broker only once the session of the dead one has ended (9 s by
        # default). It is not much shorter, because a broker without CPU time for that long is fenced, and clients
        # retry.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "num.network.threads": "2",
        "num.io.threads": "4",
    }
    settings.update(overrides)
    return "".join(f"{key}={value}\n" for key, value in settings.items())
