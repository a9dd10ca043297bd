"""The life of two services on a real broker and Spark: only these have workers, a JVM and a changelog that a
server reads. All other lives are on a log in memory (`tests/local`)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.orders import orders
from moneystate.devbroker import DevBroker
from moneystate.state.v1 import state_pb2
from tests.job.harness import Finished, JobProcess, finished
from tests.job.warm import ROOT, Warm
from tests.local.life import EVENTS, ORDERS, Life, Lives, benched
from tests.query.serving import Server, is_at
from tests.waiting import until


class OnSpark(Lives):
    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        super().__init__(bootstrap_servers, folder, local=False)
        self.warm = self.new_warm()

    def new_warm(self) -> Warm:
        """Spark's Python processes find the services in its folder, whatever its first command imports."""
        return Warm({"PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}"})

    def finished(self, *arguments: object) -> Finished:
        if arguments[0] == "rescale":  # it is refused as long as the process of the last run is alive
            self.warm.close()
            self.warm = self.new_warm()
        return finished(arguments, self.folder, self.warm)

    def killed(self, step: str, arguments: list[str]) -> None:
        paused = self.folder / "paused"
        env = {"MONEYSTATE_PAUSE_AT": step, "MONEYSTATE_PAUSE_FILE": str(paused)}
        with JobProcess(arguments, self.folder, env) as job:
            job.wait_for(paused.exists, step)


@pytest.fixture(scope="module")
def services(own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    made = OnSpark(own_broker.bootstrap_servers, tmp_path_factory.mktemp("services"))
    made.live()
    yield made
    made.warm.close()


class TestLife(Life):
    def test_a_server_of_the_service_answers_what_bench_says(self, services: Lives, tmp_path: Path) -> None:
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
