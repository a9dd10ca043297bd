"""The enrichment's core in memory, on the logs of the reference model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from moneystate.engine import clock
from moneystate.runtime import layout
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.plan import Plan
from moneystate.runtime.processor import ServiceProcessor
from moneystate.testing.simulation import Input, Simulation
from services.enrichment import service as plain
from services.enrichment import topics
from services.enrichment.job import DECODER, enrichment_job
from services.enrichment.rules import Rules
from services.enrichment.state import decode_page_entry, decode_user
from services.enrichment.step import Enrichment
from tests.reference import model

CODES = {t.name: t.code for t in topics.INPUTS}
PLAIN_CODES = Plan(plain.service).codes


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


def plain_simulation(
    rules: model.Rules, partitions: Iterable[model.Partition], key_groups: int = 4, with_fast_path: bool = True
) -> Simulation:
    """The same of the enrichment as a plain service."""
    own = plain.Rules(
        rules.session_ttl_ms, rules.dedup_ttl_ms, rules.session_wait_ms, "topic" if rules.lookup else "none"
    )
    plan = Plan(plain.service, own)
    if not with_fast_path:
        for planned in [planned for by_header in plan.inputs.values() for planned in by_header.values()]:
            planned.fast = None
    return Simulation(
        ServiceDecoder(plan),
        plan.input_topics(),
        [(PLAIN_CODES[topic], n) for topic, n in partitions],
        lambda: ServiceProcessor(plan),
        rules.bound_ms,
        rules.max_future_ms,
        key_groups,
        dead_letter_stream=plan.dead_letter_stream,
        max_record_bytes=rules.max_record_bytes,
    )


def inputs(records: Iterable[model.LogRecord], codes: Mapping[str, int] = CODES) -> list[Input]:
    return [
        Input(
            codes[r.topic], r.partition, r.offset, -1 if r.timestamp_ms is None else r.timestamp_ms, r.key, r.value,
            list(r.headers),
        )
        for r in records
    ]  # fmt: skip


def enriched(sim: Simulation) -> dict[bytes, list[bytes]]:
    """Values by user, in order."""
    by_user: dict[bytes, list[bytes]] = {}
    for stream, key, value, _ in sim.outputs:
        if stream == topics.ENRICHED:
            assert key is not None
            assert value is not None
            by_user.setdefault(key, []).append(value)
    return by_user


def requests(sim: Simulation) -> list[bytes]:
    return sorted(value or b"" for stream, _, value, _ in sim.outputs if stream == topics.LOOKUP_REQUESTS)


def dead_letters(sim: Simulation) -> Counter[tuple[str, int, int, str]]:
    letters: Counter[tuple[str, int, int, str]] = Counter()
    for stream, _, _, headers in sim.outputs:
        if stream == topics.DEAD_LETTERS:
            about = {name: (content or b"").decode() for name, content in headers if name.startswith("moneystate.")}
            place = (about["moneystate.topic"], int(about["moneystate.partition"]), int(about["moneystate.offset"]))
            letters[(*place, about["moneystate.reason"])] += 1
    return letters


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


def plain_leftovers(sim: Simulation) -> dict[str, int]:
    """The same of the plain service."""
    left: Counter[str] = Counter()
    names = {"session_lookup": "lookups", "early_replies": "replies"}
    for state in sim.states:
        for key, entry in state.entries.items():
            place = layout.place_of(key)
            if key == clock.KEY:
                left["slots"] += len(clock.decode(entry).slots)
            elif place is None:
                left["entries " + key[:1].decode()] += 1
            elif place.kind in (layout.SEEN, layout.TIMER):
                left["ids" if place.kind == layout.SEEN else "timers"] += 1
            elif place.kind == layout.ENTRY:  # what is known of a user stays, and the proof that one was forgotten
                left[names.get(place.name, place.name)] += 1
    return {name: n for name, n in left.items() if n}


def cut(records: Sequence[Input], ends: Iterable[int]) -> list[list[Input]]:
    """The records in batches that end at these positions, and a last one with the rest."""
    batches, start = [], 0
    for end in sorted(ends):
        batches.append(list(records[start:end]))
        start = max(start, end)
    return [*batches, list(records[start:])]
