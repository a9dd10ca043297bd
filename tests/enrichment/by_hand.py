"""The enrichment that is written by hand, in memory, on the logs of the reference model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final

from moneystate.engine import clock
from moneystate.testing.simulation import Simulation
from services.enrichment import topics
from services.enrichment.job import DECODER, enrichment_job
from services.enrichment.rules import Rules
from services.enrichment.state import decode_page_entry, decode_user
from services.enrichment.step import Enrichment
from tests.enrichment.harness import Core
from tests.enrichment.harness import inputs as shared_inputs
from tests.enrichment.harness import interleaved as shared_interleaved
from tests.enrichment.harness import run_case as shared_run_case
from tests.reference import model

CODES = {t.name: t.code for t in topics.INPUTS}


def simulation(
    rules: model.Rules, partitions: Iterable[model.Partition], key_groups: int = 4, tasks: int = 2
) -> Simulation:
    own = Rules(
        bound_ms=rules.bound_ms,
        session_ttl_ms=rules.session_ttl_ms,
        dedup_ttl_ms=rules.dedup_ttl_ms,
        session_wait_ms=rules.session_wait_ms,
        max_future_ms=rules.max_future_ms,
        lookup=rules.lookup,
        max_record_bytes=rules.max_record_bytes,
    )
    job = enrichment_job(own)
    known = {t.name for t in job.inputs}
    planned = [(CODES[topic], p) for topic, p in partitions if topic in known]
    return Simulation(
        DECODER,
        job.inputs,
        planned,
        partial(Enrichment, own),
        own.bound_ms,
        own.max_future_ms,
        key_groups,
        tasks,
        max_record_bytes=own.max_record_bytes,
    )


def leftovers(sim: Simulation) -> dict[str, int]:
    """What is left in state that is to be removed some day: sessions, ids, waiting money, replies, buffered items."""
    left: Counter[str] = Counter()
    for state in sim.states:
        for key, entry in state.entries.items():
            if key[:1] in (b"u", b"p"):
                user = decode_user(key[1:], entry) if key[:1] == b"u" else None
                pages = user.pages.values() if user else [decode_page_entry(entry)]
                for page in pages:
                    left["ids"] += page.ids_n
                    left["sessions"] += len(page.sessions)
                    left["waiting"] += len(page.waiting)
                    left["lookups"] += len(page.lookups)
                    left["replies"] += len(page.replies)
            elif key == clock.KEY:
                left["slots"] += len(clock.decode(entry).slots)
            elif key[:1] != b"f":  # the proof that a user was forgotten stays
                left["entries " + key[:1].decode()] += 1
    return {name: n for name, n in left.items() if n}


BY_HAND: Final = Core(simulation, leftovers, CODES)
inputs: Final = partial(shared_inputs, codes=CODES)
interleaved: Final = partial(shared_interleaved, codes=CODES)
run_case: Final = partial(shared_run_case, core=BY_HAND)
