"""Workers of deliveries that are killed and frozen at random, and a checker of all that they promise."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from moneystate.deliver import history, pending, status_events, statuses
from moneystate.deliver.accounts import Accounts, Event
from moneystate.deliver.breaker import Status
from moneystate.deliver.history import Attempt, Cut, Ended, LogRecord, Redeliver, Redelivered, Undelivered
from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.records import Delivery
from moneystate.devbroker import DevBroker
from moneystate.kafka.partitions import partition_of_key
from tests.deliver.workers import PARTITIONS, Site, numbers_in
from tests.kafka.logs import Cluster
from tests.reference.kafka_log import read_log
from tests.reference.model import LogRecord as KafkaRecord
from tests.waiting import until

SESSION_S: Final = 6.0  # the least that a broker takes
FLAGS: Final = ("--kafka-config", f"session.timeout.ms={SESSION_S * 1_000:.0f}", "--max-connections", "40")
WORKERS: Final = 2
MOODS: Final = {
    "good": ("ok",),
    "flaky": ("ok", "ok", "status/500", "reset"),
    "sick": ("ok", "hang"),
    "slow": ("ok", "retry/1"),
}
ENDS_S: Final = 600.0
TOO_OLD_MS: Final = 80 * 3_600_000  # for another attempt


class Trial:
    """Endpoints of different moods with subscriptions of every kind, and workers that do not live long."""

    def __init__(self, site: Site, rng: random.Random) -> None:
        self.site = site
        self.rng = rng
        self.subscriptions: dict[str, str] = {}  # their endpoints
        self.commands = 0
        self.faults: Counter[str] = Counter()
        for name in MOODS:
            site.endpoint(name, f"/moody/{name}", timeoutMs=1_000, maxInFlight=4)
        site.endpoint("picky", "/status/422")
        for endpoint in MOODS:
            self._subscribe(f"{endpoint}-single", endpoint)
            self._subscribe(f"{endpoint}-all", endpoint, ordering="all")
            self._subscribe(f"{endpoint}-tenant", endpoint, ordering="tenant")
            self._subscribe(f"{endpoint}-batch", endpoint, mode="batch", maxMessages=5, maxWaitMs=200)
            self._subscribe(
                f"{endpoint}-batch-tenant", endpoint, mode="batch", maxMessages=5, maxWaitMs=200, ordering="tenant"
            )
        self._subscribe("refused", "picky")
        self.workers = [site.worker(*FLAGS) for _ in range(WORKERS)]

    def _subscribe(self, name: str, endpoint: str, **more: object) -> None:
        self.site.subscription(name, endpoint, **more)
        if name != "refused":
            self.subscriptions[name] = endpoint

    def disturb(self) -> None:
        """Some traffic, and then one fault."""
        for name in MOODS:
            self.site.receiver.moods[name] = self.rng.choice(MOODS[name])
        for name, endpoint in self.rng.sample(list(self.subscriptions.items()), 6):
            self.site.send(name, endpoint, self.rng.randrange(8), tenant=self.rng.choice("ab"))
        if self.rng.random() < 0.1:
            self.site.send("refused", "picky", 1, time.time_ns() // 1_000_000 - TOO_OLD_MS)
        if self.rng.random() < 0.1:
            self._send_again()
        time.sleep(self.rng.uniform(0.1, 2.0))
        self._fault(self.rng.randrange(WORKERS))

    def _send_again(self) -> None:
        self.commands += 1
        ids = [one.delivery_id for one in self.rng.sample(self.site.deliveries, 5)]
        endpoint = self.rng.choice(list(MOODS))
        self.site.command(Redeliver(f"c{self.commands}", endpoint, "acme", "ann", 1, ids=ids))

    def _fault(self, number: int) -> None:
        kind = self.rng.choices(["kill", "freeze", "stop"], [8, 1, 1])[0]
        self.faults[kind] += 1
        worker = self.workers[number]
        if kind == "freeze":
            worker.process.send_signal(signal.SIGSTOP)
            time.sleep(SESSION_S + self.rng.uniform(0.0, 3.0))
            worker.process.send_signal(signal.SIGCONT)
            return
        if kind == "kill":
            worker.kill()
        else:
            until(lambda: "started" in worker.err(), worker.err, ENDS_S)  # before, a signal just ends it
            assert worker.stop().code == 0, worker.err()
        self.workers[number] = self.site.worker(*FLAGS)

    def end(self) -> None:
        """All endpoints work, and everything comes to its end."""
        self.site.receiver.moods.clear()
        until(self._is_over, self.workers[0].err, ENDS_S)
        for worker in self.workers:
            assert worker.stop().code == 0, worker.err()

    def _is_over(self) -> bool:
        time.sleep(2.0)
        return Checker(self.site).open() == 0


class Checker:
    """What the topics and the receivers have."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.log = list(self._records(history.LOG))
        self.deliveries: dict[str, Delivery] = {one.delivery_id: one for one in site.deliveries}
        self.cuts = {one.webhook_id: one for _, one in self.log if isinstance(one, Cut)}

    def _records(self, topic: str) -> Iterator[tuple[KafkaRecord, LogRecord]]:
        for record in self._kafka(topic):
            one = history.from_json(record.value)
            if isinstance(one, Cut | Attempt | Ended | Redelivered):
                yield record, one

    def _kafka(self, topic: str) -> list[KafkaRecord]:
        if self.site.cluster.prefix + topic not in self.site.cluster.names():
            return []
        return read_log(self.site.cluster.bootstrap_servers, [topic], self.site.cluster.prefix)[0]

    def accounts(self) -> list[Accounts]:
        made = [Accounts() for _ in range(PARTITIONS)]
        for one in self.deliveries.values():
            event = Event(one.topic, one.event_id, one.subscription_id, one.endpoint_id)
            made[partition_of_key(one.endpoint_id.encode(), PARTITIONS)].expect(one.delivery_id, event)
        for record, entry in self.log:
            made[record.partition].take(entry)
        return made

    def open(self) -> int:
        return sum(one.totals().open for one in self.accounts())

    def check(self) -> Counter[Outcome]:
        """Raises AssertionError. Returns the outcomes of runs."""
        accounts = self.accounts()
        assert [fault for one in accounts for fault in one.faults()] == []
        self._check_bodies()
        self._check_cuts()
        self._check_undelivered()
        self._check_nothing_is_pending()
        self._check_statuses()
        self._check_order()
        outcomes: Counter[Outcome] = Counter()
        for one in accounts:
            outcomes.update(one.totals().by_outcome)
        return outcomes

    def _members(self, webhook_id: str) -> list[str]:
        return self.cuts[webhook_id].members if webhook_id in self.cuts else [webhook_id]

    def _ended(self, *wanted: Outcome) -> Iterator[tuple[str, int, Outcome]]:
        """Delivery, run and outcome."""
        for _, one in self.log:
            if isinstance(one, Ended) and one.outcome in wanted:
                for delivery_id in self._members(one.webhook_id):
                    yield delivery_id, one.run, one.outcome

    def _check_bodies(self) -> None:
        """One body for each id, with its members; what was delivered has been accepted."""
        bodies: dict[str, bytes] = {}
        accepted: set[str] = set()
        for one in self.site.receiver.journal:
            assert bodies.setdefault(one.headers["webhook-id"], one.body) == one.body
        for webhook_id, body in bodies.items():
            members = [self.deliveries[name] for name in self._members(webhook_id)]
            assert [its.body for its in members] == _bodies_in(body, webhook_id in self.cuts)
        for one in self.site.receiver.accepted:
            accepted.update(self._members(one.headers["webhook-id"]))
        assert {name for name, _, _ in self._ended(Outcome.DELIVERED)} <= accepted

    def _check_cuts(self) -> None:
        """A batch is in the log before its first request comes. A delivery is in one batch, or in the halves of one."""
        written = {one.webhook_id: record.timestamp_ms or 0 for record, one in self.log if isinstance(one, Cut)}
        for one in self.site.receiver.journal:
            if one.headers["content-type"] != "application/json":
                assert written[one.headers["webhook-id"]] <= one.at_ms
        holders: defaultdict[str, list[Cut]] = defaultdict(list)
        for cut in self.cuts.values():
            for name in cut.members:
                holders[name].append(cut)
        for cuts in holders.values():
            assert sum(not one.replaces for one in cuts) == 1

    def _check_undelivered(self) -> None:
        records = [history.from_json(record.value) for record in self._kafka(history.UNDELIVERED)]
        left = Counter(
            (one.delivery.delivery_id, one.run, one.outcome) for one in records if isinstance(one, Undelivered)
        )
        assert left == Counter(self._ended(Outcome.DEAD, Outcome.OVERFLOW))

    def _check_nothing_is_pending(self) -> None:
        latest = {record.key: record.value for record in self._kafka(pending.PENDING)}
        assert [key for key, value in latest.items() if value is not None] == []

    def _check_statuses(self) -> None:
        """The last event about an endpoint says what its last status says."""
        latest = {record.key: statuses.from_json(record.value or b"")[1] for record in self._kafka(statuses.STATUSES)}
        told: dict[bytes | None, str] = {}
        for record in sorted(self._kafka(status_events.EVENTS), key=lambda its: (its.partition, its.offset)):
            kind = dict(record.headers)["ce_type"] or b""
            told[record.key] = kind.decode()
        assert told.keys() == latest.keys()
        for key, breaker in latest.items():
            is_open = told[key] == status_events.Kind.OPENED
            assert is_open == (breaker.status is Status.OPEN), (key, told[key], breaker)

    def _check_order(self) -> None:
        firsts: defaultdict[str, dict[int, None]] = defaultdict(dict)
        for one in self.site.receiver.accepted:
            for number in numbers_in(one):
                its = self.site.deliveries[number]
                if its.subscription_id.endswith("-all"):
                    firsts[its.subscription_id].setdefault(number)
                elif its.subscription_id.endswith("-tenant"):
                    firsts[f"{its.subscription_id}/{its.tenant}"].setdefault(number)
        for lane, numbers in firsts.items():
            assert list(numbers) == sorted(numbers), lane


def _bodies_in(body: bytes, is_batch: bool) -> list[bytes]:
    """Those of the members of a request."""
    if not is_batch:
        return [body]
    parts = body[1:-1].split(b',"data":')[1:]
    return [part[: part.index(b"}") + 1] for part in parts]


def run(broker: DevBroker, folder: Path, seed: int, kills: int) -> None:
    with Site(Cluster(broker.bootstrap_servers, f"deliveries-{seed}-"), folder) as site:
        trial = Trial(site, random.Random(seed))
        for number in range(kills):
            trial.disturb()
            if number % 20 == 19:
                print(f"{number + 1} faults, {len(site.deliveries):,} deliveries", flush=True)
        trial.end()
        outcomes = Checker(site).check()
        told = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
        faults = ", ".join(f"{count} times {name}" for name, count in sorted(trial.faults.items()))
        print(f"deliveries, {faults}: {len(site.deliveries):,} deliveries, {told}; held", flush=True)
