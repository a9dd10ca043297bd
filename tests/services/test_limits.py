"""The limits of the queries of all services that come with the platform."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import moneystate as ms
from moneystate.cli.known_services import KNOWN
from moneystate.runtime.reference import service_at
from moneystate.testing import Bench

ANY = {str: "any", int: 0, "str": "any", "int": 0, "From": 0, "ms.Millis": 1}
LIMITED = [
    pytest.param(service, query, id=f"{service.name}-{query.__name__}")
    for paths in KNOWN.values()
    for service in map(service_at, paths)
    for query in service.queries.values()
    if "limit" in inspect.signature(query).parameters
]


@pytest.mark.parametrize(("service", "query"), LIMITED)
def test_a_negative_limit_is_refused(service: ms.Service[Any], query: Callable[..., Any]) -> None:
    bench = Bench(service)
    needed = [p for p in inspect.signature(query).parameters.values() if p.default is p.empty][1:]
    arguments = {p.name: ANY[p.annotation] for p in needed}
    assert bench.ask(query, **arguments, limit=0) == []
    assert bench.ask(query, **arguments, limit=1 << 70) == []
    with pytest.raises(ms.ArgumentError, match="limit: expected a number from 0 on, found -1"):
        bench.ask(query, **arguments, limit=-1)
