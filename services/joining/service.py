"""Parts of one result from several services, joined by id. docs/joining.md has the rules."""

from __future__ import annotations

import moneystate as ms
from services.joining.config import Config, check
from services.joining.queries import declare_queries
from services.joining.records import Cancelled, Joined, Part, PartsRequested, Result
from services.joining.steps import Steps


def joining(config: Config) -> ms.Service[Config]:
    service = ms.Service("joining", rules=config)
    check(service, config)
    service.holding(2 * len(config.services) + 2)  # `joined` has each body twice: in its part, and merged
    part = service.input("parts", Part, key="id", time="produced_at", format=config.format)
    requested = service.input("parts", PartsRequested, key="id", time="requested_at", format=config.format)
    cancelled = service.input("parts", Cancelled, key="id", time="cancelled_at", format=config.format)
    joined = service.output("joined", Joined, key="id", compacted=True, format=config.format)
    results = service.value("results", Result)
    waited, ends, forgotten = service.timer("waited"), service.timer("ends"), service.timer("forgotten")

    steps = Steps(joined, waited, ends, forgotten)
    service.on(part, results)(steps.take_part)
    service.on(requested, results)(steps.take_request)
    service.on(cancelled, results)(steps.cancel)
    service.on(waited, results)(steps.show_partial)
    service.on(ends, results)(steps.end)
    service.on(forgotten, results)(steps.forget)
    declare_queries(service, results)
    return service
