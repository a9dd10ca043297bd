"""A declared lookup with real processes: the job, its worker and an HTTP service. A bench has neither of them, and only
a job has a drain that waits for replies."""

from __future__ import annotations

from examples.credit import credit
from examples.credit.credit import OrderDecided, OrderPlaced
from moneystate.runtime.plan import Plan
from services.enrichment.fake_service import FakeSessionService, HttpAnswer
from tests.job.harness import JobProcess, Setup
from tests.kafka.logs import wait_until_stable
from tests.lookup.harness import SHORT, Lookups

SERVICE = "examples.credit.credit:service"
ORDERS, REQUESTS, REPLIES, DECISIONS = "credit-orders", "scores-requests", "scores-results", "credit-decisions"
FLAGS = ("--until-caught-up", "--drain", "--lookup-deadline", "100s", "--json")
DAY = 86_400_000


class CreditSetup(Setup):
    def arguments(self, *more: str) -> list[str]:
        return ["run", SERVICE, *super().arguments(*more)[2:]]

    def decisions(self) -> list[OrderDecided]:
        wait_until_stable(self.admin(), [self.prefix + DECISIONS])
        codec = Plan(credit.service).outputs[credit.decided].codec
        return sorted((codec.decode(r.value or b"") for r in self.read(DECISIONS)), key=lambda d: d.order_id)


def score_of(path: str, before: int) -> HttpAnswer:
    customer = path.removesuffix("/score")
    if customer == "unknown":
        return HttpAnswer(404)
    if customer == "broken" or (customer == "flaky" and not before):
        return HttpAnswer(200, b"<html>")
    return HttpAnswer(200, b'{"score": %d}' % (900 if customer == "rich" else 100))


def test_a_job_waits_for_replies_that_its_worker_gets_from_an_http_service(setup: Setup, lookups: Lookups) -> None:
    setup = CreditSetup(*setup)
    customers = ["rich", "poor", "unknown", "broken", "flaky", "rich"]
    orders = [OrderPlaced(str(n), customer, 9_000, DAY + n) for n, customer in enumerate(customers)]
    codec = Plan(credit.service).codec(OrderPlaced, "")
    lookups.cluster.create(ORDERS, setup.partitions)
    for partition in range(setup.partitions):
        mine = [codec.encode(order) for order in orders[partition :: setup.partitions]]
        lookups.cluster.send(setup.prefix + ORDERS, mine, partition)
    decisions = ["ACCEPTED", "REFUSED", "REFUSED", "MANUAL", "REFUSED", "ACCEPTED"]
    want = [OrderDecided(str(n), decision) for n, decision in enumerate(decisions)]
    with FakeSessionService(score_of, path="/customers/") as service, worker_of(setup, service.url):
        done = setup.run(*FLAGS)
        assert done.totals["looking_up"] == 0
        assert setup.decisions() == want
        calls = service.calls
        assert (calls["broken/score"], calls["flaky/score"]) == (3, 2)
    assert (len(setup.read(REQUESTS)), len(setup.read(REPLIES))) == (len(orders), len(orders))


def worker_of(setup: Setup, url: str) -> JobProcess:
    short = [part for name, value in SHORT.items() for part in ("--kafka-config", f"{name}={value}")]
    place = ["--bootstrap-servers", setup.bootstrap_servers, "--topic-prefix", setup.prefix]
    return JobProcess(["lookup-worker", SERVICE, *place, "--url", url, *short], setup.folder)
