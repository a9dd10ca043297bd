"""The life of two services on a log in memory, without Spark. One of them gets one more input in the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.orders import orders
from moneystate.cli.services import load
from moneystate.job.local.memory_clients import memory_log
from moneystate.runtime.reference import service_at
from moneystate.testing import Bench
from tests.job.harness import Finished
from tests.kafka.logs import Cluster
from tests.local.in_memory import command, killed_at
from tests.local.life import BOUND_MS, CUSTOMERS, EVENTS, FOUR, PARTITIONS, START_MS, Life, Lives, by_key, partition_of

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


# Later than what the savepoint has processed, so that they are in time for it as for a bench. Some are at the time of
# an order that the savepoint has buffered.
REFUNDS = [(f"customer-{n % 5}", n, START_MS + 300 * (297 + n)) for n in range(100)]


def send_refunds(cluster: Cluster) -> None:
    producer = cluster.producer()
    for number, (customer, cents, time_ms) in enumerate(REFUNDS):
        value = json.dumps({"type": "Refunded", "customer": customer, "cents": cents, "at": time_ms})
        producer.produce("refunds", value, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


class InProcess(Lives):
    planned: list[dict[str, Any]]  # what `plan` said of customers with one more input

    @property
    def with_refunds(self) -> Path:
        return self.folder / "customers_with_refunds.py"

    def finished(self, *arguments: object) -> Finished:
        return command(arguments)

    def killed(self, step: str, arguments: list[str]) -> None:
        with killed_at(step):
            command(arguments)

    def add_an_input(self) -> None:
        """Customers go on from a savepoint, with refunds."""
        savepoint = self.folder / "savepoint-of-customers"
        self.moneystate(
            *("checkpoint", "export", "--checkpoint", self.checkpoints / "customers", "--out", savepoint),
            *("--service", f"{self.customers}:service", "--quiet"),
        )
        changed = f"{self.with_refunds}:service"
        self.with_refunds.write_text(WITH_REFUNDS)
        self.moneystate("schemas", "release", changed)
        self.cluster.create("refunds", PARTITIONS)
        send_refunds(self.cluster)
        third, begins = self.folder / "third", (*FOUR, "--initial-state", str(savepoint))
        asked = [a for a in self.arguments(third, [changed], *begins)[1:] if a != "--quiet"]
        self.planned = self.moneystate("plan", *asked, "--json").totals["customers"]
        self.run(third, [changed], *begins, "--until-caught-up", "--drain")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with memory_log() as (_, address):
        made = InProcess(address, tmp_path_factory.mktemp("services"), local=True)
        made.live()
        made.add_an_input()
        yield made


class TestLife(Life):
    def test_an_input_that_is_added_on_a_savepoint_is_part_of_one_order(self, services: InProcess) -> None:
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
