"""The changelog of a service on a real broker, written from the pure core in memory."""

from __future__ import annotations

import json
from typing import Any

from moneystate.engine.keygroup import key_group_of
from moneystate.runtime import layout
from moneystate.runtime.plans import plan_of
from moneystate.testing.run import Crash, Run, Sent
from tests.api.services.market import Moved, Offered
from tests.kafka.logs import FLUSH_S, Cluster

SERVICE = "tests.api.services.market:service"
EPOCH = "e-market"
GROUPS = 4
PARTITIONS = 2
S = 1_000
LAST = 2  # batch
OTHERS = [f"s{n:03d}" for n in range(150)]


class MarketJob:
    """Stands for the job: a transaction for each batch."""

    service = SERVICE

    def __init__(self, cluster: Cluster) -> None:
        self.plan = plan_of(SERVICE)
        self.run = Run(self.plan, 0, dict.fromkeys(self.plan.topics, 1), GROUPS, False)
        self.codes = {topic: code for code, topic in self.plan.topics.items()}
        self.offsets = dict.fromkeys(self.plan.topics, 0)
        self.changelog = cluster.create("market-state", PARTITIONS, cleanup_policy="compact")
        self.producer = cluster.producer(**{"transactional.id": f"{cluster.prefix}job"})
        self.producer.init_transactions(FLUSH_S)
        self.batches = 0

    def batch(self, until: int, *events: Moved | Offered) -> None:
        """All are processed that are before `until`."""
        log: list[Sent | Crash] = []
        for event in events:
            topic = "moved" if isinstance(event, Moved) else "offered"
            log.append(self._sent(topic, self.plan.codecs[type(event)].encode(event)))
        log += [self._sent(topic, self.run.heartbeat(until)) for topic in self.codes]
        before = len(self.run.sim.changes)
        self.run.batch(log)
        self._write(self.run.sim.changes[before:], self.run.sim.watermark)

    def _sent(self, topic: str, value: bytes) -> Sent:
        code = self.codes[topic]
        self.offsets[code] += 1
        return Sent(code, 0, self.offsets[code] - 1, value)

    def _write(self, changes: list[Any], watermark: int) -> None:
        self.producer.begin_transaction()
        records = [0] * PARTITIONS
        for key, value in changes:
            partition = key_group_of(layout.owner_of(key) or b"", GROUPS) % PARTITIONS
            self.producer.produce(self.changelog, value, key, partition=partition)
            records[partition] += 1
        for partition in range(PARTITIONS):
            end = {
                "batch": self.batches, "epoch": EPOCH, "groups": GROUPS, "partitions": PARTITIONS,
                "keyGroups": [g for g in range(GROUPS) if g % PARTITIONS == partition], "version": 2,
                "records": records[partition], "watermark": watermark,
                "rules": {"keep_ms": 10 * S, "topics": self.plan.codes},
            }  # fmt: skip
            self.producer.produce(self.changelog, json.dumps(end).encode(), b"ejob/0", partition=partition)
        self.producer.commit_transaction(FLUSH_S)
        self.batches += 1


def begin(job: MarketJob) -> None:
    """Version 0: versions are kept from what a replica has seen come."""
    job.batch(
        2 * S, Moved("ann", "ES", 3, S), Offered("ann", "x1", 700, ["new"], S), Offered("ann", "x2", 500, [], S),
        Offered("bob", "y", 100, ["new", "red"], S),
    )  # fmt: skip


def go_on(job: MarketJob) -> None:
    """Version 1: ann moves, many others come; version 2: an offer is gone, and what was looked at has expired."""
    job.batch(
        4 * S, Moved("ann", "PT", 9, 3 * S), *[Moved(other, "FR", n, 3 * S) for n, other in enumerate(OTHERS)]
    )  # fmt: skip
    job.batch(12 * S, Offered("bob", "y", 0, [], 5 * S), Offered("bob", "x9", 300, [], 11 * S))
