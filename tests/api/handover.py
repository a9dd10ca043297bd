"""Hands the state of one bench to another: what a start with other rules, or another program, finds."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

from moneystate.api.service import Service
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench


def handed_over(before: Bench, service: Service[Any], *, settled: bool = True, **given: Any) -> Bench:
    """A bench of `service` that continues with the state of `before`, its buffer included, and the saved numbers of its
    topics. Both have one key group. `settled`: after all of its records are processed; otherwise they wait."""
    if settled:
        before.dead_letters()
    else:
        before._batches()
    with patch("moneystate.testing.bench.Plan", partial(Plan, codes=before.plan.codes)):
        bench = Bench(service, key_groups=1, **given)
    bench.run.sim.states = before.run.sim.states
    bench.run.order = dict(before.run.order)
    return bench


def stored(bench: Bench, kinds: bytes = b"vmtu") -> dict[bytes, bytes]:
    """The entries of the service's own state, of these kinds."""
    return {key: value for key, value in bench.entries() if key[:1] in kinds}
