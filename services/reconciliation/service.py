"""Items and their findings: the first of the two services."""

from __future__ import annotations

import functools
import operator

import moneystate as ms
from services.reconciliation.config import Config, check
from services.reconciliation.decode import decoder_of
from services.reconciliation.keys import interval_key, key_text, keys_of, own_id, parts_of
from services.reconciliation.queries import declare_queries
from services.reconciliation.records import CountChange, Entry, Finding, InventoryItem, Lost, Seen, checked_time
from services.reconciliation.steps import Outputs, Steps

FINDINGS = "reconciliation-findings"
CHANGES = "reconciliation-changes"


def reconciliation(config: Config) -> ms.Service[Config]:
    service = ms.Service("reconciliation", rules=config)
    check(service, config)
    parts = parts_of(config.pairs)

    findings = service.output(
        FINDINGS, Finding, key=lambda f: key_text(f.pair, f.source, f.event_id), format=config.format
    )
    changes = service.output(CHANGES, CountChange, key=lambda c: interval_key(c.pair, c.interval_start), timed=True)
    entries = service.value("entry", Entry)
    further = service.map("further", Seen)  # the actual items of a key after its first
    lost = service.map("lost", Lost)
    wait = service.timer("wait")  # to due; then, and after a match at once, to end. As one timer, due comes before end
    forget = service.timer("forget", of=lost)
    inputs = [
        service.input(
            given.topic, InventoryItem, key=keys_of(parts), time=checked_time, bound_ms=given.bound_ms,
            format=given.format, decode=decoder_of(given),
        )
        for given in config.inputs
    ]  # fmt: skip
    items = functools.reduce(operator.or_, inputs)

    steps = Steps(parts, {pair.name: pair for pair in config.pairs}, Outputs(findings, changes, wait, forget))
    service.on(items, entries, further.at(derived_id))(steps.take)
    service.on(wait, entries, further, lost)(steps.waited)
    service.on(forget, lost)(steps.forget_lost)
    declare_queries(service, entries, further, lost)
    return service


def derived_id(item: InventoryItem) -> list[str]:
    """Parts of an event meet others of its key: what was seen of them is read with the batch."""
    return [] if item.derived_from is None else [own_id(item)]
