"""The service against the reference, over random logs in random batches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from moneystate.testing import Bench
from services.entities.config import Config
from services.entities.service import entities
from tests.services.entities.reference import COMMANDS, EVENTS, Reference
from tests.services.entities.workload import CONFIG, log_of, send

BOUND_MS = 5_000


def bench_of(config: Config = CONFIG, seed: int = 0, partitions: int = 2) -> Bench:
    return Bench(entities(config), bound_ms=BOUND_MS, seed=seed, partitions=partitions)


def reference_of(bench: Bench, config: Config = CONFIG) -> Reference:
    reference = Reference(config.merge_window_ms, config.command_retention_ms)
    reference.run(log_of(bench), {EVENTS: BOUND_MS, COMMANDS: 0})
    return reference


def out(bench: Bench, topic: str) -> list[Any]:
    return bench.out(*[output for output in bench.service.outputs if output.topic == topic])


def check(bench: Bench, reference: Reference) -> None:
    assert out(bench, "entity-changes") == reference.changes
    assert out(bench, "entity-command-results") == reference.results
    assert out(bench, "entities") == reference.standing
    assert out(bench, "entity-conflicts") == reference.conflicts
    assert Counter(bench.dead_letters()) == reference.letters
    for name in ("too_old", "duplicates", "conflicts"):
        assert bench.count(name) == reference.counts[name], name
    for id, entity in reference.entities.items():
        stored: Any = bench.state(bench.service.states["stored"], id)
        assert (stored.status, stored.version) == (entity.status(), entity.version)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_comes_in_any_batches_it_is_what_the_reference_says(seed: int) -> None:
    bench = bench_of(seed=seed)
    send(bench, seed, 150)
    bench.end()
    check(bench, reference_of(bench))


def test_the_random_logs_meet_every_rule() -> None:
    seen: Counter[str] = Counter()
    for seed in range(25):
        bench = bench_of(seed=seed)
        send(bench, seed, 150)
        reference = reference_of(bench)
        seen += reference.seen + reference.counts + reference.letters
    kinds = ("created", "patched", "deleted")
    expected = {f"{kind} while {status}" for kind in kinds for status in ("UNKNOWN", "ACTIVE", "DELETED")}
    expected |= {f"{kind} behind a newer write" for kind in kinds} | {"no visible change", "the same result again"}
    expected |= {"CreateRequested ALREADY_ACTIVE", "PatchRequested NOT_ACTIVE", "DeleteRequested NOT_ACTIVE"}
    expected |= {f"{kind}Requested {end}" for kind in ("Create", "Patch", "Delete") for end in ("ACCEPTED",)}
    expected |= {"PatchRequested VERSION_MISMATCH", "DeleteRequested VERSION_MISMATCH", "DeleteRequested ID_CONFLICT"}
    expected |= {"too_old", "duplicates", "conflicts", "not_an_object"}
    assert not {name for name in expected if seen[name] < 5}, seen
