"""Plain services as jobs on a real broker, in one process without Spark: what Bench says of the same records, in
whatever batches, after kills, side by side without a prefix, and in a replay on Spark."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from examples.orders import orders
from moneystate.api.codec import Codec
from moneystate.api.plans import plan_of
from moneystate.api.reference import service_at
from moneystate.cli.services import load
from moneystate.devbroker import DevBroker
from moneystate.savepoint.format import Savepoint
from moneystate.state.v1 import state_pb2
from moneystate.testing import Bench
from tests.job.harness import Finished, JobProcess, finished, moneystate
from tests.job.warm import Warm
from tests.kafka.logs import Cluster, wait_until_stable
from tests.query.serving import Server, is_at
from tests.reference import kafka_log
from tests.waiting import until

ORDERS = "examples.orders.orders:service"
START_MS = 1_700_000_000_000
PARTITIONS = 2
BOUND_MS = 5_000
WAIT_MS = 20_000
RULES = ("--bound", "5s", "--wait", "20s")
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
WITH_REFUNDS = (
    CUSTOMERS
    + """

@dataclass(frozen=True)
class Refunded:
    customer: str
    cents: int
    at: ms.Millis


refunded = service.input("refunds", Refunded, key="customer", time="at", format="json")


@service.on(refunded, total)
def refund(ctx: ms.Context[None], e: Refunded, total: Sum) -> None:
    total.cents -= e.cents
    ctx.emit(spent, Spent(ctx.key, total.cents))
"""
)


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
# Later than what the savepoint has processed, so that they are in time for it as for a bench. Some are at the time of
# an order that the savepoint has buffered.
REFUNDS = [(f"customer-{n % 5}", n, START_MS + 300 * (297 + n)) for n in range(100)]


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


def send_refunds(cluster: Cluster) -> None:
    producer = cluster.producer()
    for number, (customer, cents, time_ms) in enumerate(REFUNDS):
        value = json.dumps({"type": "Refunded", "customer": customer, "cents": cents, "at": time_ms})
        producer.produce("refunds", value, partition=number % PARTITIONS)
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


class Services:
    """The services of this module on one broker. Topics are without prefix."""

    replayed: dict[str, Any]  # what `verify-replay` printed before the last of the input arrived
    bootstrapped: dict[str, Any]  # what `bootstrap` printed before the last of the input arrived
    planned: list[dict[str, Any]]  # what `plan` said of customers with one more input

    def __init__(self, broker: DevBroker, folder: Path) -> None:
        self.cluster = Cluster(broker.bootstrap_servers, "")
        self.broker = broker
        self.folder = folder
        self.warm = Warm()
        self.checkpoints = folder / "checkpoints"
        self.savepoint = folder / "savepoint"
        self.customers = folder / "customers.py"
        self.customers.write_text(CUSTOMERS)
        self.with_refunds = folder / "customers_with_refunds.py"

    def flags(self, checkpoint: Path, *more: str) -> list[str]:
        return [
            *("--bootstrap-servers", self.broker.bootstrap_servers, "--checkpoint", str(checkpoint)),
            *("--partitions", "2", "--topic-partitions", str(PARTITIONS), "--quiet", *more),
        ]

    def arguments(self, checkpoint: Path, services: list[str], *more: str) -> list[str]:
        """Of a run."""
        formats = ["--format", "orders=json", *(["--format", "orders-closed=json"] if ORDERS in services else [])]
        rules = RULES if ORDERS in services else RULES[:2]
        return ["run", "--local", *services, *rules, *formats, *self.flags(checkpoint, *more)]

    def run(self, checkpoint: Path, services: list[str], *more: str) -> Finished:
        return self.moneystate(*self.arguments(checkpoint, services, *more))

    def killed(self, step: str, checkpoint: Path, services: list[str], *more: str) -> None:
        paused = self.folder / "paused"
        env = {"MONEYSTATE_PAUSE_AT": step, "MONEYSTATE_PAUSE_FILE": str(paused)}
        with JobProcess(self.arguments(checkpoint, services, *more), self.folder, env) as job:
            job.wait_for(paused.exists, step)

    def moneystate(self, *arguments: object) -> Finished:
        return moneystate(arguments, self.folder, self.warm)

    def read(self, topic: str) -> list[Any]:
        wait_until_stable(AdminClient({"bootstrap.servers": self.broker.bootstrap_servers}), [topic])
        return kafka_log.read_log(self.broker.bootstrap_servers, [topic], "")[0]

    def json(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"") for record in self.read(topic)]


@pytest.fixture(scope="module")
def services(own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Both in one Spark application, killed in the middle and run again; then each by itself from a savepoint to the
    end of its input: orders with other key groups, customers with one more input."""
    folder = tmp_path_factory.mktemp("services")
    made = Services(own_broker, folder)
    customers = f"{made.customers}:service"
    made.moneystate("schemas", "release", customers)
    for topic in ("orders", "payments"):
        made.cluster.create(topic, PARTITIONS)
    send(made.cluster, EVENTS[:300])
    four = ("--key-groups", "4")
    made.killed("sunk@1", made.checkpoints, [ORDERS, customers], *four, "--max-records-per-batch", "100")
    done = made.run(made.checkpoints, [ORDERS, customers], *four, "--until-caught-up", "--json")
    assert set(done.totals) == {"orders", "customers"}
    first = made.checkpoints / "orders"
    made.moneystate(
        *("checkpoint", "export", "--checkpoint", first, "--out", made.savepoint, "--key-groups", "6"),
        *("--service", ORDERS, "--quiet"),
    )
    made.replayed = made.moneystate(
        *("verify-replay", "--checkpoint", first, "--service", ORDERS, "--json", "--quiet"),
        *("--bootstrap-servers", own_broker.bootstrap_servers, "--format", "orders=json"),
        *("--format", "orders-closed=json"),
    ).totals
    made.bootstrapped = made.moneystate(
        *("bootstrap", "--from", "kafka", "--out", folder / "bootstrapped", "--service", ORDERS, *RULES),
        *("--bootstrap-servers", own_broker.bootstrap_servers, "--format", "orders=json", "--key-groups", "5"),
        *("--partitions", "2", "--json", "--quiet"),
    ).totals
    send(made.cluster, EVENTS[300:])
    made.run(
        folder / "second", [ORDERS], "--key-groups", "6", "--initial-state", str(made.savepoint),
        "--until-caught-up", "--drain",
    )  # fmt: skip
    made.planned = add_an_input(made, *four)
    yield made
    made.warm.close()


def add_an_input(made: Services, *flags: str) -> list[dict[str, Any]]:
    """Customers go on from a savepoint, with refunds. What `plan` said before."""
    savepoint = made.folder / "savepoint-of-customers"
    made.moneystate(
        *("checkpoint", "export", "--checkpoint", made.checkpoints / "customers", "--out", savepoint),
        *("--service", f"{made.customers}:service", "--quiet"),
    )
    changed = f"{made.with_refunds}:service"
    made.with_refunds.write_text(WITH_REFUNDS)
    made.moneystate("schemas", "release", changed)
    made.cluster.create("refunds", PARTITIONS)
    send_refunds(made.cluster)
    third, begins = made.folder / "third", (*flags, "--initial-state", str(savepoint))
    asked = ["plan", *[a for a in made.arguments(third, [changed], *begins)[1:] if a != "--quiet"]]
    planned: list[dict[str, Any]] = made.moneystate(*asked, "--json").totals["customers"]
    made.run(third, [changed], *begins, "--until-caught-up", "--drain")
    return planned


def test_a_killed_and_rescaled_service_puts_out_what_bench_says(services: Services) -> None:
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


def test_a_service_beside_it_without_prefix_is_not_disturbed(services: Services) -> None:
    names = services.cluster.names()
    assert {f"{s}-{t}" for s in ("orders", "customers") for t in ("state", "commits", "dead-letters")} <= names


def test_an_input_that_is_added_on_a_savepoint_is_part_of_one_order(services: Services) -> None:
    """As if both inputs had been there from the beginning."""
    declared = load(f"{services.with_refunds}:service")
    bench = Bench(service_at(declared), bound_ms=BOUND_MS, partitions=PARTITIONS)
    placed, refunded = bench.plan.service.inputs
    for event in (e for e in EVENTS if isinstance(e, orders.OrderPlaced)):
        value = bench.plan.codec(placed.record, "").encode(event)
        bench._append(bench.plan.codes["orders"], partition_of(event.order_id), value)
    for number, refund in enumerate(REFUNDS):
        value = bench.plan.codec(refunded.record, "").encode(refunded.record(*refund))
        bench._append(bench.plan.codes["refunds"], number % PARTITIONS, value)
    bench.end()
    wanted = [{"customer": made.customer, "cents": made.cents} for made in bench.out(bench.plan.service.outputs[0])]
    written = [{name: r[name] for name in ("customer", "cents")} for r in services.json("customers-spent")]
    assert by_key(written, "customer") == by_key(wanted, "customer")
    assert len(wanted) == len(REFUNDS) + sum(isinstance(e, orders.OrderPlaced) for e in EVENTS)
    assert [(change["part"], change["name"], change["refused"]) for change in services.planned] == [
        ("checkpoint", "customers", False), ("input", "refunds", False), ("schema", "known", False),
    ]  # fmt: skip


def test_a_replay_of_a_service_gives_its_state_and_output(services: Services) -> None:
    assert services.replayed["agrees"]
    assert services.replayed["records"] == 300
    assert services.replayed["output_expected"] > 0


def test_a_bootstrap_of_a_service_gives_its_state(services: Services) -> None:
    assert services.bootstrapped["records"] == 300
    assert services.bootstrapped["fingerprint"] == Savepoint(services.savepoint).manifest.fingerprint


def test_a_server_of_the_service_answers_what_bench_says(services: Services, tmp_path: Path) -> None:
    bench = benched(EVENTS)
    customers = sorted({e.customer for e in EVENTS if isinstance(e, orders.OrderPlaced)})
    with Server(services.cluster, tmp_path / "replica", "--service", ORDERS, job=services) as server:
        with server.client() as client:
            until(lambda: is_at(client, 0), server.output, 60)
            for customer in customers:
                value = state_pb2.IndexValue(parts=[state_pb2.Part(text=customer)])
                request = state_pb2.ListRequest(index="by_customer", equals=value, page_size=1_000)
                listed = client.call("State.List", request).records
                wanted = bench.ask(lambda view, name: list(view.find(orders.by_customer, name)), customer)
                assert [(r.name.key, json.loads(r.json)["status"]) for r in listed] == [
                    (k, o.status) for k, o in wanted
                ]
                assert wanted
            explained = client.call(
                "State.Explain", state_pb2.ExplainRequest(name=state_pb2.RecordName(state="order", key="order-0"))
            )
            assert explained.steps
        asked = services.moneystate(
            "ask", "orders", "open_cents", customers[0], "--address", server.address, "--json"
        )  # fmt: skip
        assert bench.ask(orders.open_cents, customers[0]) == 0  # all have been paid or have expired
        assert str(asked.totals) == "0"


def test_state_is_shown_and_refused_by_its_service(services: Services) -> None:
    shown = services.moneystate(
        "checkpoint", "show", "--checkpoint", services.savepoint, "--service", ORDERS, "--json", "order-0"
    )
    assert shown.totals["order"][0]["customer"].startswith("customer-")
    arguments = ["checkpoint", "fingerprint", str(services.savepoint)]
    for more in ([], ["--service", f"{services.customers}:service"]):
        done = finished([*arguments, *more], services.folder, services.warm)
        assert done.code == 4
        assert "--service" in done.err
