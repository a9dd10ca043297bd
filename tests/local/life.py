"""The life of two services, told once: a run, a kill, a replay, a bootstrap, other key groups.

`Lives` runs it. What came of it is what Bench says of the same records: `Life` has these tests, for a log in memory
(`test_life.py`) and for a broker and Spark (`tests/job/test_life.py`).
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from examples.orders import orders
from moneystate.records.codec import Codec
from moneystate.runtime.plans import plan_of
from moneystate.testing import Bench
from tests.job.harness import Finished
from tests.kafka.logs import Cluster, new_consumer
from tests.reference import kafka_log

ORDERS = "examples.orders.orders:service"
START_MS = 1_700_000_000_000
PARTITIONS = 2
BOUND_MS = 5_000
WAIT_MS = 20_000
RULES = ("--bound", "5s", "--wait", "20s")
IN_JSON = ("--format", "orders=json", "--format", "orders-closed=json")
FOUR = ("--key-groups", "4", "--partitions", "2")
CUSTOMERS = """
from dataclasses import dataclass

import moneystate as ms
from examples.orders.orders import OrderPlaced


@dataclass(frozen=True)
class Spent:
    customer: str
    cents: int


@dataclass
class Sum:
    cents: int = 0


service = ms.Service("customers")
placed = service.input("orders", OrderPlaced, key="customer", time="placed_at", format="json")
spent = service.output("customers-spent", Spent, key="customer", format="json")
total = service.value("total", Sum)


@service.on(placed, total)
def place(ctx: ms.Context[None], e: OrderPlaced, total: Sum) -> None:
    total.cents += e.cents
    ctx.emit(spent, Spent(ctx.key, total.cents))
"""


def events(seed: int, n: int) -> list[Any]:
    """Orders and payments, some late, twice, or not positive."""
    rng = random.Random(seed)
    made: list[Any] = []
    for number in range(n):
        time_ms = START_MS + 300 * number - rng.choice((0, 0, 0, 7_000))
        order = f"order-{rng.randrange(number // 2 + 1)}"
        if rng.random() < 0.5:
            made.append(orders.OrderPlaced(order, f"customer-{rng.randrange(5)}", rng.randrange(-5, 100), time_ms))
        else:
            made.append(orders.PaymentTaken(f"payment-{rng.randrange(n)}", order, rng.randrange(1, 80), time_ms))
    return made


EVENTS = events(1, 400)


def partition_of(order_id: str) -> int:
    """As Bench has it."""
    return sum(order_id.encode()) % PARTITIONS


def send(cluster: Cluster, sent: Iterable[Any]) -> None:
    """Orders as JSON, payments as Avro."""
    producer = cluster.producer()
    codecs = {made.codec.record.cls: made.codec for its in plan_of(ORDERS).inputs.values() for made in its.values()}
    for event in sent:
        codec = codecs[type(event)]
        if isinstance(event, orders.OrderPlaced):
            topic, value = "orders", codec.to_json(event)
        else:
            topic, value = "payments", codec.encode(event)
        producer.produce(topic, value, partition=partition_of(event.order_id))
    assert producer.flush(30) == 0


def benched(sent: Iterable[Any]) -> Bench:
    bench = Bench(orders.service, bound_ms=BOUND_MS, rules=orders.Rules(WAIT_MS), partitions=PARTITIONS)
    bench.send(*sent)
    bench.end()
    return bench


def by_key(records: Iterable[Any], key: str) -> dict[str, list[Any]]:
    made: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        made[record[key]].append(record)
    return dict(made)


class Lives:
    """The services on one log. Topics are without prefix. `local`: without Spark."""

    replayed: dict[str, Any]  # what `verify-replay` printed before the last of the input arrived
    bootstrapped: dict[str, Any]  # what `bootstrap` printed before the last of the input arrived
    rescaled: dict[str, Any]  # what `rescale` printed

    def __init__(self, bootstrap_servers: str, folder: Path, local: bool) -> None:
        self.cluster = Cluster(bootstrap_servers, "")
        self.folder = folder
        self.local = ("--local",) if local else ()
        self.checkpoints = folder / "checkpoints"
        self.orders = folder / "savepoint-of-orders"
        self.customers = folder / "customers.py"
        self.customers.write_text(CUSTOMERS)

    def finished(self, *arguments: object) -> Finished:
        """One command to its end."""
        raise NotImplementedError

    def moneystate(self, *arguments: object) -> Finished:
        """One command to its end, which has to be a good one."""
        done = self.finished(*arguments)
        assert done.code == 0, done.out + done.err
        return done

    def killed(self, step: str, arguments: list[str]) -> None:
        """One command up to a step."""
        raise NotImplementedError

    def flags(self, checkpoint: Path, *more: str) -> list[str]:
        return [
            *("--bootstrap-servers", self.cluster.bootstrap_servers, "--checkpoint", str(checkpoint)),
            *("--topic-partitions", str(PARTITIONS), "--quiet", *more),
        ]

    def arguments(self, checkpoint: Path, services: list[str], *more: str) -> list[str]:
        """Returns the arguments of a run."""
        formats = IN_JSON if ORDERS in services else IN_JSON[:2]
        rules = RULES if ORDERS in services else RULES[:2]
        return ["run", *self.local, *services, *rules, *formats, *self.flags(checkpoint, *more)]

    def run(self, checkpoint: Path, services: list[str], *more: str) -> Finished:
        return self.moneystate(*self.arguments(checkpoint, services, *more))

    def read(self, topic: str) -> list[Any]:
        self.cluster.wait_until_stable(topic)
        return kafka_log.read_log(self.cluster.bootstrap_servers, [topic], "", make=new_consumer)[0]

    def json(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"") for record in self.read(topic)]

    def live(self) -> None:
        """Both in one application, killed in the middle and run again. Then orders with other key groups, to the end of
        its input."""
        customers = f"{self.customers}:service"
        self.moneystate("schemas", "release", customers)
        for topic in ("orders", "payments"):
            self.cluster.create(topic, PARTITIONS)
        send(self.cluster, EVENTS[:300])
        both = [ORDERS, customers]
        self.killed("sunk@1", self.arguments(self.checkpoints, both, *FOUR, "--max-records-per-batch", "100"))
        done = self.run(self.checkpoints, both, *FOUR, "--until-caught-up", "--json")
        assert set(done.totals) == {"orders", "customers"}
        self.replay_and_rescale()

    def replay_and_rescale(self) -> None:
        first, second = self.checkpoints / "orders", self.folder / "second"
        connection = ("--bootstrap-servers", self.cluster.bootstrap_servers)
        about = ("--checkpoint", first, "--service", ORDERS, *connection, "--json", "--quiet")
        self.replayed = self.moneystate("verify-replay", *about, *IN_JSON).totals
        self.bootstrapped = self.moneystate(
            *("bootstrap", *self.local, "--from", "kafka", "--out", self.orders, "--service", ORDERS),
            *(*RULES, *IN_JSON, *connection, "--key-groups", "5", "--partitions", "2", "--json", "--quiet"),
        ).totals
        self.rescaled = self.moneystate("rescale", *about, "--new-checkpoint", second, "--key-groups", "6").totals
        send(self.cluster, EVENTS[300:])
        numbers = self.rescaled["next"].split()[-4:]
        self.run(second, [ORDERS], *numbers, "--until-caught-up", "--drain")


class Life:
    """The tests. A fixture `services` has run the life."""

    def test_a_killed_and_rescaled_service_puts_out_what_bench_says(self, services: Lives) -> None:
        bench = benched(EVENTS)
        closed: Codec = bench.plan.outputs[orders.closed].codec
        wanted = [json.loads(closed.to_json(record)) for record in bench.out(orders.closed)]
        assert by_key(services.json("orders-closed"), "orderId") == by_key(wanted, "orderId")
        assert wanted
        letters = services.read("orders-dead-letters")
        reasons = [dict(r.headers)["moneystate.reason"] for r in letters]
        assert sorted((reason or b"").decode() for reason in reasons) == sorted(bench.dead_letters())
        placed = next(i.codec for its in bench.plan.inputs.values() for i in its.values() if i.topic == "orders")
        sent = {placed.to_json(event) for event in EVENTS if isinstance(event, orders.OrderPlaced)}
        values = [r.value for r in letters if dict(r.headers)["moneystate.topic"] == b"orders"]
        assert values
        assert set(values) <= sent, "a dead letter of a step is the record as it was sent, in JSON"

    def test_a_service_beside_it_without_prefix_is_not_disturbed(self, services: Lives) -> None:
        names = services.cluster.names()
        assert {f"{s}-{t}" for s in ("orders", "customers") for t in ("state", "commits", "dead-letters")} <= names

    def test_a_replay_of_a_service_gives_its_state_and_output(self, services: Lives) -> None:
        assert services.replayed["agrees"]
        assert services.replayed["records"] == 300
        assert services.replayed["output_expected"] > 0

    def test_a_bootstrap_of_a_service_gives_its_state(self, services: Lives) -> None:
        assert services.bootstrapped["records"] == 300
        assert services.bootstrapped["fingerprint"] == services.replayed["fingerprint"]

    def test_state_is_shown_and_refused_by_its_service(self, services: Lives) -> None:
        shown = services.moneystate(
            "checkpoint", "show", "--checkpoint", services.orders, "--service", ORDERS, "--json", "order-0"
        )
        assert shown.totals["state"]["order"][0]["customer"].startswith("customer-")
        arguments = ["checkpoint", "fingerprint", str(services.orders)]
        for more in ([], ["--service", f"{services.customers}:service"]):
            done = services.finished(*arguments, *more)
            assert done.code == 4
            assert "--service" in done.err
