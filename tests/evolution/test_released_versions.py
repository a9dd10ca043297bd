"""Every pair (writer, reader) of released versions, through any values; and all versions mixed in one state."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.engine import clock as clocks
from moneystate.engine.avro import HEADER_BYTES, MAGIC
from moneystate.engine.fingerprints import STATE_MANIFEST, STATE_RUN
from moneystate.engine.plan import STATE_VERSION, Rewrite
from moneystate.kafka.formats import SchemaSet
from moneystate.kafka.formats.versions import AnyVersion
from moneystate.runtime.folders import avro_root
from moneystate.schemas.tree import Version, is_state, read_folder, tree_of
from services.enrichment.migrations import LEFT_ALONE, WRITTEN, NotDowngradable, at_version
from tests.budget import examples
from tests.enrichment.by_hand import interleaved, simulation
from tests.enrichment.harness import by_user, cut, enriched, expect, requests
from tests.evolution.avro_bytes import decode, encode, parsed, values
from tests.reference.codec import encode as encode_event
from tests.reference.strategies import Case, cases

TREE = tree_of(read_folder(avro_root()))
ANY_VERSION = AnyVersion(SchemaSet.load())
SOME = settings(max_examples=examples(40), database=None, suppress_health_check=list(HealthCheck))
STATE = {
    bytes.fromhex("c301" + v.fingerprint): v for n in TREE.versions if is_state(n) for v in TREE.versions[n].values()
}
STATE_PAIRS = [
    (name, writer, reader)
    for name in sorted(TREE.versions)
    if is_state(name) and len(TREE.versions[name]) > 1
    for writer, reader in permutations(sorted(WRITTEN), 2)
]
TOPIC_VERSIONS = [(n, number) for n in sorted(TREE.versions) if not is_state(n) for number in TREE.versions[n]]
MOVED = ("from", "ages", "stateVersion")  # what a version does not have, or has as its own number


def version_of(name: str, state_version: int) -> Version:
    """The record's version of a state version."""
    return next(v for header, v in STATE.items() if v.name == name and header in WRITTEN[state_version])


@pytest.mark.parametrize(("name", "writer", "reader"), STATE_PAIRS)
@SOME
@given(data=st.data())
def test_what_any_state_version_wrote_is_the_same_in_any_other(
    name: str, writer: int, reader: int, data: st.DataObject
) -> None:
    written, wanted = version_of(name, writer), version_of(name, reader)
    schema, names = parsed(written.source)
    value = data.draw(values(schema, names))
    entry = MAGIC + bytes.fromhex(written.fingerprint) + encode(schema, names, value)
    moved = at_version(entry, reader)
    assert moved[len(MAGIC) : HEADER_BYTES].hex() == wanted.fingerprint
    known = meaning(decode(schema, entry[HEADER_BYTES:]))
    assert meaning(decode(parsed(wanted.source)[0], moved[HEADER_BYTES:])) == known
    back = at_version(moved, writer)
    assert meaning(decode(schema, back[HEADER_BYTES:])) == known


def meaning(value: Any) -> Any:
    """What all versions have: no sources, ids as text."""
    if isinstance(value, list):
        return [meaning(part) for part in value]
    if isinstance(value, dict):
        shown = {k: meaning(v) for k, v in value.items() if k not in MOVED and not k.endswith("From")}
        return shown["type"] if set(shown) == {"type"} else shown
    return str(uuid.UUID(bytes=value)) if isinstance(value, bytes) and len(value) == 16 else value


def test_every_state_schema_belongs_to_a_state_version() -> None:
    """But for what the state store holds them in."""
    of_entries = {header for written in WRITTEN.values() for header in written}
    assert set(STATE) == {*of_entries, STATE_MANIFEST, STATE_RUN}
    assert max(WRITTEN) == STATE_VERSION


def test_an_entry_without_a_way_back_is_refused_unless_it_may_stay() -> None:
    assert at_version(LEFT_ALONE[0] + b"as it is", 1) == LEFT_ALONE[0] + b"as it is"
    with pytest.raises(NotDowngradable, match="state version 1"):
        at_version(MAGIC + bytes(8), 1)


@pytest.mark.parametrize(("name", "number"), TOPIC_VERSIONS)
@SOME
@given(data=st.data())
def test_any_released_version_in_a_topic_is_read_as_the_current_one(
    name: str, number: int, data: st.DataObject
) -> None:
    written, current = TREE.versions[name][number], TREE.current_version(name)
    if name.startswith("headers/"):
        assert written is current
        return
    schema, names = parsed(written.source)
    body = encode(schema, names, data.draw(values(schema, names)))
    got = ANY_VERSION.to_canonical(MAGIC + bytes.fromhex(written.fingerprint) + body)
    assert got[len(MAGIC) : HEADER_BYTES].hex() == current.fingerprint
    reader = parsed(current.source)[0]
    assert decode(reader, got[HEADER_BYTES:]) == decode(schema, body, reader)


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(cases(least_ms=1), st.integers(0, 2**32), st.integers(0, 200), st.integers(1, 5))
def test_a_downgrade_and_an_upgrade_change_versions_alone(case: Case, seed: int, end: int, shares: int) -> None:
    records = interleaved(case, seed)
    places = [("session-lookup-results", p) for p in sorted({r.partition for r in case.replies})]
    sim = simulation(case.rules, [*case.partitions, *(places if case.rules.lookup else [])])
    first, rest = cut(records, [end % (len(records) + 1)])
    sim.batch(first)
    before = [{k: v for k, v in state.entries.items() if k != clocks.KEY} for state in sim.states]
    outputs, watermark, sim.changes = list(sim.outputs), sim.watermark, []
    for version in (1, STATE_VERSION):
        for share in range(shares):
            sim.batch([], rewrite=Rewrite(share, shares, version))
        headers = {entry[:HEADER_BYTES] for state in sim.states for entry in state.entries.values()}
        assert headers <= {*WRITTEN[version], *LEFT_ALONE}
        assert {clocks.decode(state.entries[clocks.KEY]).state_version for state in sim.states} == {version}
    assert (sim.outputs, sim.watermark) == (outputs, watermark)
    after = [{k: v for k, v in state.entries.items() if k != clocks.KEY} for state in sim.states]
    assert [meaning_of_all(entries) for entries in after] == [meaning_of_all(entries) for entries in before]
    last = dict(sim.changes)
    assert all(last.get(k, v) == v for entries in after for k, v in entries.items())  # the changelog has them, too
    sim.batch(rest)
    want = expect(case, False)
    assert {user: Counter(mine) for user, mine in enriched(sim).items()} == by_user(want)


def meaning_of_all(entries: dict[bytes, bytes]) -> dict[bytes, Any]:
    meanings = {}
    for key, entry in entries.items():
        version = STATE[entry[:HEADER_BYTES]]
        value = decode(parsed(version.source)[0], entry[HEADER_BYTES:])
        meanings[key] = sorted(map(repr, value["items"])) if version.name == "state/BufferChunk" else meaning(value)
    return meanings


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(cases(least_ms=1), st.integers(0, 2**32), st.lists(st.integers(0, 200), min_size=1, max_size=6), st.booleans())
def test_all_versions_mixed_in_one_state_give_the_models_records(
    case: Case, seed: int, ends: list[int], drain: bool
) -> None:
    """After each batch some entries are as an earlier program would have left them."""
    rng = random.Random(seed)
    records = interleaved(case, seed)
    places = [("session-lookup-results", p) for p in sorted({r.partition for r in case.replies})]
    sim = simulation(case.rules, [*case.partitions, *(places if case.rules.lookup else [])])
    for batch in cut(records, [end % (len(records) + 1) for end in ends]):
        sim.batch(batch)
        for state in sim.states:
            for key in state.entries:
                state.entries[key] = at_version(state.entries[key], rng.choice(sorted(WRITTEN)))
    if drain:
        sim.batch([], drain=True)
    want = expect(case, drain)
    assert {user: Counter(mine) for user, mine in enriched(sim).items()} == by_user(want)
    assert requests(sim) == sorted(encode_event("SessionLookupRequested", r) for r in want.requests)
    assert (sim.buffered, sim.counts.get("duplicates", 0)) == (want.buffered, want.duplicates)
