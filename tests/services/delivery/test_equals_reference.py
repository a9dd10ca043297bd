"""The router gives what the reference gives, in any batches and after crashes."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from services.delivery.records import Delivery
from tests.budget import examples
from tests.services.delivery.harness import bench_of, delivered, placed
from tests.services.delivery.reference import Router
from tests.services.delivery.workload import DEDUP_MS, SUBSCRIPTIONS, Log, Workload


def router_of(log: Log) -> Router:
    return Router(log.endpoints, log.subscriptions, DEDUP_MS)


def log_of(seed: int) -> Log:
    return placed(Workload(seed).log(150))


@pytest.mark.parametrize("seed", range(examples(30)))
def test_random_logs(seed: int) -> None:
    log = log_of(seed)
    expected = router_of(log).deliveries(log.events)
    made, bench = bench_of(log, seed)
    bench.end()
    out = bench.out(made.deliveries)
    assert [delivered(d) for d in out] == expected
    assert bench.count("deliveries") == len(expected)
    assert bench.count("duplicates") == len(log.events) - len(router_of(log).routed(log.events))
    assert bench.dead_letters() == []
    check_sequences(out)


def check_sequences(out: list[Delivery]) -> None:
    """`out` is in the order of the router."""
    sequences: dict[str, list[str]] = defaultdict(list)
    for d in out:
        sequences[d.subscription_id].append(d.sequence)
    for its in sequences.values():
        assert its == sorted(set(its))


@pytest.mark.parametrize("seed", range(examples(6)))
def test_why_says_what_the_reference_says(seed: int) -> None:
    log = log_of(seed)
    router = router_of(log)
    made, bench = bench_of(log, seed)
    why = made.service.queries["why"]
    for e in router.routed(log.events)[::3]:
        outcomes = {id: router.outcome(e, id) for id in SUBSCRIPTIONS}
        for id in (*SUBSCRIPTIONS[:3], "s-none"):
            explained = [its for its in bench.ask(why, e.topic, e.id, id) if its.offset == e.offset]
            assert [v.outcome for its in explained for v in its.verdicts] == [outcomes.get(id, "NO_SUBSCRIPTION")]
        (explained,) = [its for its in bench.ask(why, e.topic, e.id) if its.offset == e.offset]
        told = {v.subscription_id: v.outcome for v in explained.verdicts}
        past_scope = ("MATCHED", "FILTERED", "NO_ENDPOINT", "INVALID_ENDPOINT", "DELETED_ENDPOINT", "OTHER_OWNER")
        assert told == {id: outcome for id, outcome in outcomes.items() if outcome in past_scope}


@pytest.mark.parametrize("seed", range(4))
def test_invalid_rows_are_counted(seed: int) -> None:
    log = log_of(seed)
    _, bench = bench_of(log, seed)
    bench.advance(1)
    invalid = Counter(row.key[0] for row in (*log.endpoints, *log.subscriptions) if not row.is_valid)
    assert bench.count("invalid_endpoints") == invalid["e"]
    assert bench.count("invalid_subscriptions") == invalid["s"]


def test_the_random_logs_reach_every_outcome() -> None:
    seen: Counter[str] = Counter()
    for seed in range(10):
        log = log_of(seed)
        router = router_of(log)
        routed = router.routed(log.events)
        seen.update(router.outcome(e, id) for e in routed for id in SUBSCRIPTIONS)
        seen["repeated"] += len(log.events) - len(routed)
        seen["repeated later"] += len(routed) - len({(e.topic, e.source, e.tenant, e.id) for e in routed})
    wanted = (
        "MATCHED NO_SUBSCRIPTION INVALID_SUBSCRIPTION INACTIVE OTHER_TYPE OTHER_TENANT OTHER_DEPARTMENT FILTERED "
        "NO_ENDPOINT INVALID_ENDPOINT DELETED_ENDPOINT OTHER_OWNER"
    )
    assert {name for name in (*wanted.split(), "repeated", "repeated later") if seen[name] < 10} == set(), seen
