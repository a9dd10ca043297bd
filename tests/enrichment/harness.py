"""The enrichment in memory, on the logs of the reference model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from moneystate.engine import clock
from moneystate.runtime import layout
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.plan import Plan
from moneystate.runtime.processor import ServiceProcessor
from moneystate.testing.simulation import Input, Simulation
from services.enrichment import service as plain
from tests.enrichment import topics
from tests.reference import model
from tests.reference.strategies import Case


def simulation(
    rules: model.Rules, partitions: Iterable[model.Partition], key_groups: int = 4, with_fast_path: bool = True
) -> Simulation:
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
        [(topics.CODES[topic], n) for topic, n in partitions],
        lambda: ServiceProcessor(plan),
        rules.bound_ms,
        rules.max_future_ms,
        key_groups,
        dead_letter_stream=plan.dead_letter_stream,
        max_record_bytes=rules.max_record_bytes,
    )


def inputs(records: Iterable[model.LogRecord]) -> list[Input]:
    return [
        Input(
            topics.CODES[r.topic], r.partition, r.offset, -1 if r.timestamp_ms is None else r.timestamp_ms,
            r.key, r.value, list(r.headers),
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


def interleaved(case: Case, seed: int) -> list[Input]:
    """All records, partitions in their own order and mixed at random, replies anywhere."""
    queues: dict[tuple[int, int], list[Input]] = {}
    known = case.records + (case.replies if case.rules.lookup else [])
    for record in inputs(known):
        queues.setdefault((record.topic, record.partition), []).append(record)
    rng = random.Random(seed)
    mixed = []
    while queues:
        place = rng.choice(sorted(queues))
        mixed.append(queues[place].pop(0))
        if not queues[place]:
            del queues[place]
    return mixed


def run_case(case: Case, seed: int, ends: list[int], drain: bool, key_groups: int = 4) -> Simulation:
    records = interleaved(case, seed)
    replies = {(r.topic, r.partition) for r in case.replies} if case.rules.lookup else set()
    sim = simulation(case.rules, [*case.partitions, *sorted(replies)], key_groups)
    batches = cut(records, [end % (len(records) + 1) for end in ends])
    for batch in batches:
        sim.batch(batch)
    if drain:
        sim.batch([], drain=True)
    return sim


def expect(case: Case, drain: bool) -> model.Result:
    return model.run(case.records, case.partitions, case.rules, drain, case.replies)


def by_user(result: model.Result) -> dict[bytes, Counter[bytes]]:
    users: dict[bytes, Counter[bytes]] = {}
    for out in result.enriched:
        users.setdefault(out.user_id.encode(), Counter())[out.encoded] += 1
    return users


any_cuts = st.lists(st.integers(0, 200), max_size=6)
