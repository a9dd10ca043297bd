"""Counts of the items by pair and interval: the second of the two services, behind the first one's changes."""

from __future__ import annotations

import moneystate as ms
from moneystate.records.iso_time import from_ms
from services.reconciliation.config import Config, check
from services.reconciliation.intervals import Intervals
from services.reconciliation.keys import interval_key
from services.reconciliation.records import Completeness, CountChange, Interval
from services.reconciliation.service import CHANGES

COMPLETENESS = "reconciliation-completeness"


def completeness(config: Config) -> ms.Service[Config]:
    service = ms.Service(COMPLETENESS, rules=config, namespace="reconciliation")
    check(service, config)

    def key_of(record: Completeness) -> str:
        """The time as it stands in the value."""
        start = record.interval_start
        return interval_key(record.pair, from_ms(start) if config.format == "json" else start)

    records = service.output(COMPLETENESS, Completeness, key=key_of, compacted=True, format=config.format)
    intervals = service.value("interval", Interval)
    by_pair = service.index("by_pair", intervals, by=lambda i: (i.pair, i.start))
    look = service.timer("look")  # at the next multiple of o where there was a change, and for the final record
    changes = service.input(CHANGES, CountChange, key=lambda c: interval_key(c.pair, c.interval_start), timed=True)

    steps = Intervals({pair.name: pair for pair in config.pairs}, records, look, by_pair)
    service.on(changes, intervals)(steps.take)
    service.on(look, intervals)(steps.write)
    service.query(steps.intervals_of)
    return service
