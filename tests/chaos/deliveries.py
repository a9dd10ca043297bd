"""The router and the workers of deliveries, killed and frozen at random, and a checker of all that they promise."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

from moneystate.deliver import history, pending, status_events, statuses
from moneystate.deliver.accounts import Accounts, Event
from moneystate.deliver.breaker import Status
from moneystate.deliver.history import Attempt, Cut, Ended, LogRecord, Redeliver, Redelivered, Undelivered
from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.records import Delivery
from moneystate.deliver.worker import DELIVERIES
from moneystate.devbroker import DevBroker
from moneystate.kafka.partitions import partition_of_key
from moneystate.records.codec import Codec
from moneystate.records.platform_records import TABLE_LOADED_RECORD, TableLoaded
from tests.deliver.made import READER
from tests.deliver.workers import PARTITIONS, WITHIN_S, Receivers, Site, numbers_in
from tests.job.harness import JobProcess
from tests.kafka.logs import Cluster
from tests.reference.kafka_log import read_log
from tests.reference.model import LogRecord as KafkaRecord
from tests.waiting import until

SESSION_S: Final = 6.0  # the least that a broker takes
WAITS: Final = "2s,5s,10s,30s,1m,1m,1m"  # so that what is refused ends soon
FLAGS: Final = (
    "--kafka-config", f"session.timeout.ms={SESSION_S * 1_000:.0f}", "--max-connections", "40", "--retry-waits", WAITS,
)  # fmt: skip
WORKERS: Final = 2
MOODS: Final = {
    "good": ("ok",),
    "flaky": ("ok", "ok", "status/500", "reset"),
    "sick": ("ok", "hang"),
    "slow": ("ok", "retry/1"),
}
BATCHES: Final[dict[str, Any]] = {"mode": "batch", "maxMessages": 5, "maxWaitMs": 200}
SUBSCRIPTIONS: Final[dict[str, dict[str, Any]]] = {
    "single": {},
    "all": {"ordering": "all"},
    "tenant": {"ordering": "tenant"},
    "batch": BATCHES,
    "batch-tenant": {**BATCHES, "ordering": "tenant"},
}
EVENTS: Final = "events"
ENDS_S: Final = 600.0


class RoutedSite(Site):
    """Events whose type names a subscription, so that each has one delivery, and the router that makes it."""

    def __enter__(self) -> Self:
        self.cluster.create(EVENTS, PARTITIONS, message_timestamp_type="LogAppendTime")
        for table in ("endpoints", "subscriptions"):
            self.cluster.create(table, message_timestamp_type="LogAppendTime")
        self.receiver = self.stack.enter_context(Receivers())
        self.producer = self.cluster.producer()
        self.sent: dict[str, str] = {}  # subscriptions by event
        return self

    def start(self) -> JobProcess:
        """The router, which waits for the end of the first load of the tables."""
        loaded = Codec(TABLE_LOADED_RECORD).to_json(TableLoaded(0, 0, 0, "test", 0))
        for table in ("endpoints", "subscriptions"):
            self.cluster.send(self.cluster.prefix + table, [loaded])
        self.config = self.folder / "delivery.toml"
        self.config.write_text(
            f'[delivery]\ncloud_events = ["{EVENTS}"]\ndelivery_partitions = {PARTITIONS}\nallow_http = true\n'
        )
        router = self.router()
        until(lambda: self.cluster.prefix + DELIVERIES in self.cluster.names(), router.err, WITHIN_S)
        return router

    def router(self) -> JobProcess:
        return self.stack.enter_context(JobProcess([
            *("run", "delivery", "--config", str(self.config), "--bootstrap-servers", self.cluster.bootstrap_servers),
            *("--topic-prefix", self.cluster.prefix, "--checkpoint", str(self.folder / "checkpoint"), "--local"),
            *("--partitions", "2", "--key-groups", "4", "--quiet"),
        ], self.folder))  # fmt: skip

    def send_events(self, subscription: str, count: int, tenant: str) -> None:
        for _ in range(count):
            number = len(self.sent)
            self.sent[f"event-{number}"] = subscription
            headers = {"ce_id": f"event-{number}", "ce_source": "chaos", "ce_type": subscription, "ce_tenant": tenant}
            value = json.dumps({"n": number}).encode()
            self.producer.produce(self.cluster.prefix + EVENTS, value, headers=[*headers.items()])
        assert self.producer.flush(WITHIN_S) == 0

    def routed(self) -> list[Delivery]:
        """Each partition's in its order."""
        records, _ = read_log(self.cluster.bootstrap_servers, [DELIVERIES], self.cluster.prefix)
        return [READER.read(one.value) for one in sorted(records, key=lambda its: (its.partition, its.offset))]


class Trial:
    """Endpoints of different moods with subscriptions of every kind, and processes that do not live long."""

    def __init__(self, site: RoutedSite, rng: random.Random) -> None:
        self.site = site
        self.rng = rng
        self.subscriptions: list[str] = []
        self.commands = 0
        self.faults: Counter[str] = Counter()
        for name in MOODS:
            site.endpoint(name, f"/moody/{name}", timeoutMs=1_000, maxInFlight=4)
            for kind, more in SUBSCRIPTIONS.items():
                self._subscribe(f"{name}-{kind}", name, **more)
        site.endpoint("picky", "/status/422")
        self._subscribe("refused", "picky")
        self.router = site.start()
        self.workers = [site.worker(*FLAGS) for _ in range(WORKERS)]

    def _subscribe(self, name: str, endpoint: str, **more: Any) -> None:
        self.site.subscription(name, endpoint, **{"types": [name], **more})
        if name != "refused":
            self.subscriptions.append(name)

    def disturb(self) -> None:
        """Some traffic, and then one fault."""
        for name in MOODS:
            self.site.receiver.moods[name] = self.rng.choice(MOODS[name])
        for name in self.rng.sample(self.subscriptions, 6):
            self.site.send_events(name, self.rng.randrange(8), self.rng.choice("ab"))
        if self.rng.random() < 0.05:
            self.site.send_events("refused", 1, "a")
        if self.rng.random() < 0.05:
            self._send_again()
        time.sleep(self.rng.uniform(0.1, 2.0))
        self._fault()

    def _send_again(self) -> None:
        """What has ended in a second of the last half a minute."""
        self.commands += 1
        since_ms = time.time_ns() // 1_000_000 - self.rng.randrange(30_000)
        endpoint = self.rng.choice(list(MOODS))
        command = Redeliver(f"c{self.commands}", endpoint, "acme", "ann", 1, None, since_ms, since_ms + 1_000)
        self.site.command(command)

    def _fault(self) -> None:
        kind = self.rng.choices(["kill the router", "kill", "freeze", "stop"], [4, 12, 1, 2])[0]
        self.faults[kind] += 1
        if kind == "kill the router":
            self.router.kill()
            self.router = self.site.router()
            return
        number = self.rng.randrange(WORKERS)
        worker = self.workers[number]
        if kind == "freeze":
            worker.process.send_signal(signal.SIGSTOP)
            time.sleep(SESSION_S + self.rng.uniform(0.0, 3.0))
            worker.process.send_signal(signal.SIGCONT)
            return
        if kind == "kill":
            worker.kill()
        else:
            until(lambda: "started" in worker.err(), worker.err, WITHIN_S)  # before, a signal just ends it
            assert worker.stop().code == 0, worker.err()
        self.workers[number] = self.site.worker(*FLAGS)

    def end(self) -> None:
        """All endpoints work, and everything comes to its end."""
        self.site.receiver.moods.clear()
        until(self._is_over, self.workers[0].err, ENDS_S)
        for process in (self.router, *self.workers):
            assert process.stop().code == 0, process.err()

    def _is_over(self) -> bool:
        time.sleep(2.0)
        checker = Checker(self.site)
        return len(checker.routed) >= len(self.site.sent) and checker.open() == 0


class Checker:
    """What the topics and the receivers have."""

    def __init__(self, site: RoutedSite) -> None:
        self.site = site
        self.routed = site.routed()
        self.log = list(self._records(history.LOG))
        self.deliveries = {one.delivery_id: one for one in self.routed}
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
        assert sorted((one.event_id, one.subscription_id) for one in self.routed) == sorted(self.site.sent.items())
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
        """That of `deliveries`, by which an event was accepted for the first time."""
        places = {int(one.event_id.partition("-")[2]): (place, one) for place, one in enumerate(self.routed)}
        firsts: defaultdict[str, dict[int, None]] = defaultdict(dict)
        for received in self.site.receiver.accepted:
            for number in numbers_in(received):
                place, one = places[number]
                if one.subscription_id.endswith("-all"):
                    firsts[one.subscription_id].setdefault(place)
                elif one.subscription_id.endswith("-tenant"):
                    firsts[f"{one.subscription_id}/{one.tenant}"].setdefault(place)
        for lane, its in firsts.items():
            assert list(its) == sorted(its), lane


def _bodies_in(body: bytes, is_batch: bool) -> list[bytes]:
    """Those of the members of a request."""
    if not is_batch:
        return [body]
    parts = body[1:-1].split(b',"data":')[1:]
    return [part[: part.index(b"}") + 1] for part in parts]


def run(broker: DevBroker, folder: Path, seed: int, kills: int) -> None:
    with RoutedSite(Cluster(broker.bootstrap_servers, f"deliveries-{seed}-"), folder) as site:
        trial = Trial(site, random.Random(seed))
        for number in range(kills):
            trial.disturb()
            if number % 20 == 19:
                print(f"{number + 1} faults, {len(site.sent):,} events", flush=True)
        trial.end()
        outcomes = Checker(site).check()
        told = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
        faults = ", ".join(f"{count} times {name}" for name, count in sorted(trial.faults.items()))
        print(f"deliveries, {faults}: {len(site.sent):,} events, {told}; held", flush=True)
