"""A job's changelog on a real broker, written from the pure core in memory: each batch is one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from moneystate.engine.keygroup import key_group_of
from moneystate.engine.processor import Change
from moneystate.runtime.layout import owner_of
from moneystate.state.v1 import header_pb2, state_pb2
from moneystate.testing.simulation import Simulation
from tests.enrichment import topics
from tests.enrichment.harness import inputs, simulation
from tests.enrichment.jobs import enrichment_job
from tests.kafka.logs import FLUSH_S, Cluster
from tests.reference.builder import LogBuilder
from tests.reference.model import Rules

EPOCH = "e-story"
GROUPS = 4
CHANGELOG_PARTITIONS = 2
RULES = Rules(bound_ms=1_000, session_wait_ms=3_600_000)


def at(batch: int, epoch: str = EPOCH) -> header_pb2.At:
    return header_pb2.At(version=header_pb2.Version(epoch=epoch, batch=batch))


def user(key: str, **more: Any) -> tuple[str, state_pb2.GetRequest]:
    """Asks for what is known of a user."""
    return "State.Get", state_pb2.GetRequest(name=state_pb2.RecordName(state="user", key=key), **more)


class Job:
    """Stands for the job: what it would write to the changelog, batch by batch."""

    service = "enrichment"

    def __init__(self, cluster: Cluster, epoch: str = EPOCH) -> None:
        self.log = LogBuilder()
        self.cluster = cluster
        self.epoch = epoch
        self.batches = 0
        self.told = 0
        job = enrichment_job(RULES)
        self.rules = {name: job.rules[name] for name in job.reader_rules}
        self.sim: Simulation = simulation(RULES, self.log.partitions, key_groups=GROUPS)
        self.changelog = cluster.create(topics.CHANGELOG, CHANGELOG_PARTITIONS, cleanup_policy="compact")
        cluster.create(topics.STREAMS[topics.ENRICHED])
        cluster.create("user-events")
        self.producer = cluster.producer(**{"transactional.id": f"{cluster.prefix}job"})
        self.producer.init_transactions(FLUSH_S)

    def batch(self) -> None:
        """What was put into `log` since the last one."""
        self.sim.batch(inputs(self.log.records[self.told :]))
        self.told = len(self.log.records)
        changes, self.sim.changes = self.sim.changes, []
        self.write(changes, self.sim.watermark)

    def write(self, changes: Iterable[Change], watermark: int) -> None:
        """One transaction, of one output partition that has all key groups."""
        self.producer.begin_transaction()
        records = [0] * CHANGELOG_PARTITIONS
        for key, value in changes:
            partition = group_of(key) % CHANGELOG_PARTITIONS
            self.producer.produce(self.changelog, value, key, partition=partition)
            records[partition] += 1
        for partition in range(CHANGELOG_PARTITIONS):
            mine = [g for g in range(GROUPS) if g % CHANGELOG_PARTITIONS == partition]
            end = {
                "batch": self.batches, "epoch": self.epoch, "groups": GROUPS, "keyGroups": mine,
                "records": records[partition], "version": 2, "watermark": watermark,
                "partitions": CHANGELOG_PARTITIONS, "rules": self.rules,
            }  # fmt: skip
            value = json.dumps(end, sort_keys=True).encode()
            self.producer.produce(self.changelog, value, b"ejob/0", partition=partition)
        self.producer.commit_transaction(FLUSH_S)
        self.batches += 1


def group_of(entry_key: bytes) -> int:
    return key_group_of(owner_of(entry_key) or b"", GROUPS)


OTHERS = [f"user-{n:03d}" for n in range(300)]
USERS = sorted([*OTHERS, "ann", "bob"])  # all that have state at the end, in the order of their ids
LAST = 2  # batch


def begin(job: Job) -> None:
    """Version 0: ann in ES with a session and money that waits. Versions are kept from what a replica has seen come."""
    log = job.log
    log.address("ES", 1)
    log.birth("1980", 2)
    log.session("s-ann", 3)
    log.money("m-seen", 4)
    log.money("m-waits", 5, "s-late")
    log.beats(10)
    job.batch()


def go_on(job: Job) -> None:
    """Version 1: ann moves to PT, many others come; version 2: her money is joined, bob's birth year is known."""
    log = job.log
    log.address("PT", 11)
    for n, user in enumerate(OTHERS):
        log.address("ES" if n % 3 == 0 else "FR", 12, user)
    for user in OTHERS[:20]:
        log.money(f"m-{user}", 13, f"s-{user}", userId=user)
    log.beats(20)
    job.batch()
    log.session("s-late", 21)
    log.birth("1999", 22, "bob")
    log.beats(30)
    job.batch()
