"""Every released version of an entry and of an event is read as the current one, whatever its values; and entries of
several versions in one state give the same records."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.cli.known_services import KNOWN
from moneystate.engine import clock as clocks
from moneystate.engine import slots
from moneystate.engine.avro import HEADER_BYTES, MAGIC, read_long
from moneystate.engine.items import Item
from moneystate.engine.keys import is_engines
from moneystate.engine.plan import STATE_VERSION, Rewrite
from moneystate.records.other_versions import AnyVersion
from moneystate.records.shapes import Symbols
from moneystate.runtime.cells import RecordKind, decode_entry
from moneystate.runtime.folders import avro_root
from moneystate.runtime.plans import plan_as_run, plan_of
from moneystate.runtime.processor import ServiceProcessor
from moneystate.schemas.services import released_tree
from moneystate.schemas.topic_schemas import schema_set
from moneystate.schemas.tree import Version, full_name_of, is_state, read_folder, tree_of
from moneystate.testing.simulation import Simulation
from tests.budget import examples
from tests.engine.earlier_clock import first_version
from tests.enrichment import jobs
from tests.enrichment.harness import any_cuts, by_user, cut, enriched, expect, interleaved, requests, simulation
from tests.evolution.avro_bytes import decode, encode, parsed, values
from tests.reference.codec import encode as encode_event
from tests.reference.strategies import Case, cases

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden"
SERVICES: Final = [path for paths in KNOWN.values() for path in paths]
ENRICHMENT: Final = jobs.SERVICE
TREE: Final = released_tree(ENRICHMENT)
PLAN: Final = plan_of(ENRICHMENT)
ENGINE: Final = tree_of(read_folder(avro_root()))
SOME: Final = settings(max_examples=examples(40), database=None, suppress_health_check=list(HealthCheck))


def header_of(version: Version) -> bytes:
    return MAGIC + bytes.fromhex(version.fingerprint)


# The engine's entries


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


def test_a_clock_of_version_1_becomes_the_golden_bytes_of_version_2() -> None:
    assert clocks.clock_1_to_2(golden("v1/KeyGroupClock")) == golden("v1-to-v2/KeyGroupClock")
    read = clocks.decode(golden("v1/KeyGroupClock"))
    assert (read.state_version, read.ages, read.counts["waiting"]) == (1, {}, 4)


def test_the_engines_entries_are_written_as_the_golden_bytes() -> None:
    assert clocks.encode(clocks.decode(golden("v2/KeyGroupClock"))) == golden("v2/KeyGroupClock")
    items = items_of(golden("v1/BufferChunk"))
    again = bytearray()
    for item in items:
        slots.encode_item(again, item)
    assert slots.encode_chunk(len(items), bytes(again)) == golden("v1/BufferChunk")


def items_of(chunk: bytes) -> list[Item]:
    count, block = slots.open_chunk(chunk)
    items: list[Item] = []
    slots.decode_items(block, count, items)
    return items


def test_an_end_of_what_version_1_began_to_hold_counts_nothing() -> None:
    clock = clocks.decode(golden("v1/KeyGroupClock"))
    clock.add_ages({0: -1, 10_000: 2})
    assert clock.ages == {10_000: 2}


def test_every_earlier_schema_of_the_engine_has_a_function() -> None:
    earlier = [v for name, mine in ENGINE.versions.items() if is_state(name) for v in mine.values()]
    assert {header_of(v) for v in earlier if v.number < max(ENGINE.versions[v.name])} == set(clocks.MIGRATIONS)


@SOME
@given(st.data())
def test_any_clock_of_version_1_is_the_same_in_version_2(data: st.DataObject) -> None:
    written, wanted = (ENGINE.versions["state/KeyGroupClock"][number] for number in (1, 2))
    schema, names = parsed(written.source)
    value = data.draw(values(schema, names))
    moved = clocks.clock_1_to_2(header_of(written) + encode(schema, names, value))
    assert moved.startswith(header_of(wanted))
    known = decode(parsed(wanted.source)[0], moved[HEADER_BYTES:])
    assert known == {**decode(schema, encode(schema, names, value)), "ages": []}


# Records of services


def earlier_records() -> Iterator[tuple[str, str, int]]:
    for service in SERVICES:
        versions = released_tree(service).versions
        yield from (
            (service, name, n) for name in sorted(versions) if is_state(name) for n in sorted(versions[name])[:-1]
        )


EARLIER: Final = list(earlier_records())


def kind_of(service: str, version: Version) -> RecordKind:
    full_name = full_name_of(version.source)
    return next(kind for kind in plan_of(service).kinds.values() if kind.codec.record.name == full_name)


def test_there_are_records_with_earlier_versions() -> None:
    assert {name for service, name, _ in EARLIER if service == ENRICHMENT} == {"state/Session", "state/Waiting"}


@pytest.mark.parametrize(("service", "name", "number"), EARLIER)
@SOME
@given(data=st.data())
def test_what_any_released_version_of_a_record_wrote_is_read_as_the_current_one(
    service: str, name: str, number: int, data: st.DataObject
) -> None:
    """These records have changed by defaults alone, which is what Avro's resolution reads."""
    tree = released_tree(service)
    written, current = tree.versions[name][number], tree.current_version(name)
    kind = kind_of(service, written)
    schema, names = parsed(written.source)
    value = data.draw(values(schema, names))
    for f in kind.codec.record.fields:
        if isinstance(f.shape, Symbols) and isinstance(value.get(f.wire), str):
            value[f.wire] = data.draw(st.sampled_from(f.shape.symbols))
    body = encode(schema, names, value)
    got, end = kind.earlier_records[header_of(written)](header_of(written) + body, HEADER_BYTES)
    assert end == HEADER_BYTES + len(body)
    reader = parsed(current.source)[0]
    wanted = decode(schema, body, reader)
    had = {f["name"] for f in schema["fields"]}
    defaults = {name for name in wanted if name not in had and wanted[name] == ""}  # of bytes too, in fastavro
    now = decode(reader, kind.codec.write_body(got))
    assert {**now, **{name: now[name] or "" for name in defaults}} == wanted


def topic_versions() -> Iterator[tuple[str, str, int]]:
    for service in SERVICES:
        versions = released_tree(service).versions
        yield from ((service, name, n) for name in sorted(versions) if not is_state(name) for n in versions[name])


@pytest.mark.parametrize(("service", "name", "number"), list(topic_versions()))
@SOME
@given(data=st.data())
def test_any_released_version_in_a_topic_is_read_as_the_current_one(
    service: str, name: str, number: int, data: st.DataObject
) -> None:
    either = AnyVersion(schema_set(service))
    tree = released_tree(service)
    written, current = tree.versions[name][number], tree.current_version(name)
    schema, names = parsed(written.source)
    body = encode(schema, names, data.draw(values(schema, names)))
    got = either(header_of(written) + body)
    assert got[:HEADER_BYTES] == header_of(current)
    reader = parsed(current.source)[0]
    assert decode(reader, got[HEADER_BYTES:]) == decode(schema, body, reader)


# Several versions in one state


def as_earlier(key: bytes, entry: bytes, rng: random.Random) -> bytes:
    """The entry as a program of a version of its record wrote it, of the current one too."""
    if key == clocks.KEY:
        return rng.choice([entry, first_version(entry)])
    kind = PLAN.kind_of(key)
    current = TREE.of_fingerprint(kind.codec.header[len(MAGIC) :].hex()) if isinstance(kind, RecordKind) else None
    if not isinstance(kind, RecordKind) or current is None or not entry.startswith(kind.header):
        return entry
    version = rng.choice(list(TREE.versions[current.name].values()))
    pos = HEADER_BYTES
    for _ in range(2 if kind.keeps_times else 0):
        _, pos = read_long(entry, pos)
    headers = next(headers for headers in kind.versions if headers[0] == header_of(version))
    out = BytesIO()
    schema = parsed(version.source)[0]
    fastavro.schemaless_writer(out, schema, decode(parsed(current.source)[0], entry[pos:], schema))
    return headers[kind.keeps_times] + entry[HEADER_BYTES:pos] + out.getvalue()


def mix(sim: Simulation, rng: random.Random) -> None:
    for state in sim.states:
        for key in state.entries:
            state.entries[key] = as_earlier(key, state.entries[key], rng)


def simulation_of(case: Case) -> Simulation:
    places = sorted({(r.topic, r.partition) for r in case.replies}) if case.rules.lookup else []
    sim = simulation(case.rules, [*case.partitions, *places])
    plan = plan_as_run(ENRICHMENT, jobs.given(case.rules))  # with the released versions
    sim.make = lambda: ServiceProcessor(plan)
    return sim


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(cases(least_ms=1), st.integers(0, 2**32), any_cuts, st.booleans())
def test_all_versions_mixed_in_one_state_give_the_models_records(
    case: Case, seed: int, ends: list[int], drain: bool
) -> None:
    """After each batch some entries are as an earlier program would have left them."""
    rng = random.Random(seed)
    records = interleaved(case, seed)
    sim = simulation_of(case)
    for batch in cut(records, [end % (len(records) + 1) for end in ends]):
        sim.batch(batch)
        mix(sim, rng)
    if drain:
        sim.batch([], drain=True)
    want = expect(case, drain)
    assert {user: Counter(mine) for user, mine in enriched(sim).items()} == by_user(want)
    assert requests(sim) == sorted(encode_event("SessionLookupRequested", r) for r in want.requests)
    assert (sim.buffered, sim.counts.get("duplicates", 0)) == (want.buffered, want.duplicates)


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(cases(least_ms=1), st.integers(0, 2**32), st.integers(0, 200), st.integers(1, 5))
def test_an_upgrade_changes_versions_alone(case: Case, seed: int, end: int, shares: int) -> None:
    records = interleaved(case, seed)
    sim = simulation_of(case)
    first, rest = cut(records, [end % (len(records) + 1)])
    sim.batch(first)
    mix(sim, random.Random(seed))
    before, known = [dict(state.entries) for state in sim.states], known_entries(sim)
    outputs, watermark, sim.changes = list(sim.outputs), sim.watermark, []
    for share in range(shares):
        sim.batch([], rewrite=Rewrite(share, shares, STATE_VERSION))
    assert (sim.outputs, sim.watermark) == (outputs, watermark)
    assert known_entries(sim) == known
    headers = {entry[:HEADER_BYTES] for state in sim.states for entry in state.entries.values()}
    assert headers <= {*jobs.STATE.versions.written} - {*clocks.MIGRATIONS}
    rewritten = {
        key: entry
        for was, state in zip(before, sim.states, strict=True)
        for key, entry in state.entries.items()
        if was[key] != entry and not is_engines(key)
    }
    assert dict(sim.changes) == rewritten  # which the changelog gets
    sim.batch(rest)
    want = expect(case, False)
    assert {user: Counter(mine) for user, mine in enriched(sim).items()} == by_user(want)


def known_entries(sim: Simulation) -> list[dict[bytes, Any]]:
    """What the entries say, whatever their versions."""
    return [
        {key: known(key, entry) for key, entry in state.entries.items() if key != clocks.KEY} for state in sim.states
    ]


def known(key: bytes, entry: bytes) -> Any:
    if key.startswith(slots.PREFIX):
        return items_of(entry)
    kind = PLAN.kind_of(key)
    assert kind is not None
    return decode_entry(kind, entry).encoded()
