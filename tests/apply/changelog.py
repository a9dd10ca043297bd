"""A changelog as a job writes it: two output partitions, a transaction of each for each version."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import Producer

from moneystate.engine import keys
from moneystate.engine.avro import long_bytes
from moneystate.engine.ends import EndOfBatch
from moneystate.engine.keygroup import key_group_of
from moneystate.runtime import layout
from moneystate.runtime.plans import plan_of
from tests.apply.harness import Site
from tests.apply.pairs import Part, Total

SERVICE: Final = "tests.apply.pairs:service"
GROUPS: Final = 8
OUTPUTS: Final = 2
PARTITIONS: Final = 2
OWNERS: Final = [f"owner-{n}" for n in range(12)]
IDS: Final = ["a", "b", "é"]
CHANGED_AT: Final = 5_000

Tables = tuple[dict[str, int], dict[tuple[str, str], int]]


class Changes:
    """Random changes of both states, and what the tables have at each version."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.totals: dict[str, int] = {}
        self.parts: dict[tuple[str, str], int] = {}
        self.at: dict[int, Tables] = {}  # by batch

    def next(self, batch: int, count: int) -> list[tuple[str, bytes, bytes | None]]:
        """The owner, key and value of some changes."""
        changes: dict[bytes, tuple[str, bytes, bytes | None]] = {}
        plan = plan_of(SERVICE)
        for _ in range(count):
            owner, id, goes = self._chance.choice(OWNERS), self._chance.choice(IDS), self._chance.random() < 0.3
            total, part = plan.kinds["total"], plan.kinds["parts"]
            key = layout.entry_key(total.prefix, owner.encode())
            self._set(self.totals, owner, None if goes else batch)
            value = None if goes else total.header + total.codec.write_body(Total(batch, "Eve"))
            changes[key] = owner, key, value
            key = layout.entry_key(part.prefix, owner.encode(), id.encode())
            self._set(self.parts, (owner, id), None if goes else batch)
            times = long_bytes(CHANGED_AT) + long_bytes(CHANGED_AT)
            body = part.codec.write_body(Part(batch, ["x"]))
            changes[key] = owner, key, None if goes else part.header + times + body
        self.at[batch] = dict(self.totals), dict(self.parts)
        return list(changes.values())

    @staticmethod
    def _set(state: dict[Any, int], key: Any, value: int | None) -> None:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


class Job:
    """Writes versions."""

    def __init__(self, site: Site, epoch: str = "one") -> None:
        self.topic = site.topic("pairs-state", PARTITIONS, compacted=True)
        self._epoch = epoch
        self._producers = [self._producer(site, n) for n in range(OUTPUTS)]

    def _producer(self, site: Site, output: int) -> Producer:
        made = Producer(
            {
                "bootstrap.servers": site.bootstrap_servers,
                "transactional.id": f"{site.prefix}job-{output}",
                "linger.ms": 0,
            }
        )
        made.init_transactions(30)
        return made

    def write(
        self, batch: int, changes: Iterable[tuple[str, bytes, bytes | None]], outputs: Iterable[int] = (0, 1)
    ) -> None:
        """A version, or what some output partitions write of it."""
        mine = [(key_group_of(owner.encode(), GROUPS), key, value) for owner, key, value in changes]
        for output in outputs:
            producer = self._producers[output]
            producer.begin_transaction()
            groups = [g for g in range(GROUPS) if g % OUTPUTS == output]
            counts = dict.fromkeys({g % PARTITIONS for g in groups}, 0)
            for group, key, value in mine:
                if group in groups:
                    producer.produce(self.topic, value, key, partition=group % PARTITIONS)
                    counts[group % PARTITIONS] += 1
            for to, records in counts.items():
                its = [g for g in groups if g % PARTITIONS == to]
                end = EndOfBatch(self._epoch, batch, 1_000 * batch, its, GROUPS, records, PARTITIONS, {})
                producer.produce(self.topic, end.encode(), keys.END + bytes([output]), partition=to)
            producer.commit_transaction(30)
