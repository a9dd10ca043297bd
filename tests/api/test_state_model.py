"""The platform's ports over a plain service: fingerprints, rescaling and a look at an owner need nothing of its own."""

from __future__ import annotations

import pickle
import random

import pytest

from moneystate.api.layout import entry_key, place_of, prefix_of
from moneystate.api.state_model import PlainState
from moneystate.engine import keys
from moneystate.engine.keygroup import key_group_of
from moneystate.errors import CheckpointError
from moneystate.savepoint.facts import facts
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.rescale import rescaled
from moneystate.savepoint.view import owner_view
from moneystate.testing import Bench
from tests.api.services import basket

STATE: PlainState = pickle.loads(pickle.dumps(PlainState("tests.api.services.basket:service")))
BOUND_MS = 5_000
RULES = {"keep_ms": 10_000, "visit_ms": 60_000, "bound_ms": BOUND_MS, "logic": 1}


def ran(seed: int, key_groups: int, events: int = 120) -> Bench:
    rng, bench = random.Random(3), Bench(basket.service, BOUND_MS, seed=seed, key_groups=key_groups)
    for n in range(events):
        name, at = f"basket-{rng.randrange(12)}", 1_000_000 + 700 * n
        bench.send(basket.Added(name, f"item-{rng.randrange(5)}", rng.randrange(1, 4), at))
        if n % 5 == 0:
            bench.send(basket.Looked([name], at))
    bench.count("added")  # runs what was sent
    return bench


def groups(bench: Bench) -> list[list[tuple[bytes, bytes]]]:
    return [sorted(state.entries.items()) for state in bench.run.sim.states]


def fingerprint(found: list[list[tuple[bytes, bytes]]]) -> str:
    return str(sum([of_group(n, entries, STATE, RULES) for n, entries in enumerate(found)], Fingerprint()))


def test_the_fingerprint_is_the_same_whatever_batches_and_key_groups_led_to_it() -> None:
    one, other = groups(ran(1, 3)), groups(ran(2, 5))
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint(groups(ran(1, 3, events=121)))


def test_a_rescaled_state_is_the_same_and_in_the_groups_of_its_owners() -> None:
    old = groups(ran(1, 3))
    moved = [rescaled(STATE, group, 7, old.__getitem__, 3, BOUND_MS, {}) for group in range(7)]
    assert fingerprint(moved) == fingerprint(old)
    kinds = set()
    for group, entries in enumerate(moved):
        for key, _ in entries:
            if not keys.is_engines(key):
                place = place_of(key)
                assert place is not None
                assert key_group_of(place.owner, 7) == group
                kinds.add(place.kind)
    assert {b"v", b"m", b"t"} <= kinds


def test_an_owner_is_shown_with_its_values_entries_events_and_timers() -> None:
    bench = ran(1, 1)
    (entries,) = groups(bench)
    owners = {fact.user for fact in facts(entries, STATE, RULES, with_clock=False) if fact.user}
    views = {owner: owner_view(STATE, owner, entries, RULES) for owner in owners}
    assert len(views) > 5
    totals = 0
    for owner, view in views.items():
        assert view is not None
        shown = {row["name"]: row["value"] for row in view["entries"] if row["kind"] == "value"}
        total = bench.state(basket.total, owner.decode())
        assert shown.get("total", {"n": 0})["n"] == total.n
        totals += total.n
    assert totals > 5
    assert any(view["timers"] for view in views.values() if view)
    assert owner_view(STATE, b"nobody", entries, RULES) is None


@pytest.mark.parametrize("key", [b"x", entry_key(prefix_of(b"v", "of-another-version"), b"basket-1")])
def test_an_entry_that_the_service_did_not_declare_is_refused(key: bytes) -> None:
    with pytest.raises(CheckpointError):
        of_group(1, [(key, b"")], STATE, RULES)
