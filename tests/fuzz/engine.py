"""The engine's own bytes: state entries, blocks, places, markers, end-of-batch records, plans."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from moneystate.engine import avro, block, clock, ends, marker, place, plan, segments, slots
from moneystate.engine.clock import Clock
from moneystate.engine.items import END_OF_TIME, NO_TIME, Item
from moneystate.engine.plan import NewerProgram, Plan
from moneystate.engine.slots import Slot
from tests.engine.earlier_clock import first_version
from tests.engine.test_plan import plans
from tests.fuzz.mutation import JSON, mutated, reshaped
from tests.fuzz.target import result_of, target

LONG = st.integers(-(2**63), 2**63 - 1)
TIME = st.integers(NO_TIME, END_OF_TIME)
COUNT = st.integers(0, 2**31)
ITEMS: st.SearchStrategy[list[Item]] = st.lists(
    st.tuples(LONG, st.integers(0, 9), LONG, COUNT, COUNT, COUNT, LONG, st.binary(max_size=8), st.binary(max_size=8)),
    max_size=4,
)


# Avro


@target("engine.avro", st.binary(max_size=30))
def read_parts(buf: bytes) -> None:
    for read in (avro.read_long, avro.read_bytes, avro.skip_bytes, avro.read_block):
        got: Any = result_of(lambda read=read: read(buf, 0), avro.Malformed)  # type: ignore[misc]
        assert got is None or got[-1] <= len(buf)


# The clock


@st.composite
def clocks(draw: st.DrawFn) -> Clock:
    made = Clock()
    made.watermark = draw(TIME)
    made.highs = draw(st.dictionaries(st.tuples(COUNT, COUNT), TIME, max_size=3))
    for start in draw(st.sets(TIME, max_size=3)):
        chunks = draw(st.integers(0, 100))
        made.slots[start] = Slot(chunks, draw(st.integers(0, chunks)), draw(COUNT))
    made.counts = draw(st.dictionaries(st.text(max_size=5), LONG, max_size=3))
    made.ages = draw(st.dictionaries(TIME, LONG, max_size=3))
    return made


@target("engine.clock", mutated(clocks().map(clock.encode) | clocks().map(lambda c: first_version(clock.encode(c)))))
def read_clock(entry: bytes) -> None:
    decoded = result_of(lambda: clock.decode(entry), avro.Malformed)
    if decoded is not None:
        for start, slot in decoded.slots.items():  # their chunks can be named
            slots.chunk_key(start, max(0, slot.chunks - 1))
            assert 0 <= slot.open_chunks <= slot.chunks
        if decoded.state_version == plan.STATE_VERSION:
            assert clock.encode(clock.decode(clock.encode(decoded))) == clock.encode(decoded)


@target("engine.clock.round", clocks())
def clock_round(made: Clock) -> None:
    assert clock.encode(clock.decode(clock.encode(made))) == clock.encode(made)


# Slots


def chunk(items: list[Item]) -> bytes:
    out = bytearray()
    for item in items:
        slots.encode_item(out, item)
    return slots.encode_chunk(len(items), bytes(out))


def items_of(entry: bytes) -> list[Item]:
    count, content = slots.open_chunk(entry)
    items: list[Item] = []
    slots.decode_items(content, count, items)
    return items


@target("engine.slots", mutated(ITEMS.map(chunk)))
def read_chunk(entry: bytes) -> None:
    items = result_of(lambda: items_of(entry), avro.Malformed)
    assert items is None or items_of(chunk(items)) == items


# Segments

ENTRIES = st.dictionaries(st.binary(max_size=9), st.none() | st.binary(max_size=9), min_size=1, max_size=5)


def entries_in(chunks: list[bytes]) -> dict[bytes, bytes | None]:
    got: dict[bytes, bytes | None] = {}
    for one in chunks:
        segments.decode_chunk(one, got)
    return got


@target("engine.segment", mutated(ENTRIES.map(lambda entries: segments.encode_segment(entries)[0])))
def check_segment(content: bytes) -> None:
    got = result_of(lambda: entries_in([content]), avro.Malformed)
    assert not got or entries_in(segments.encode_segment(got)) == got


@st.composite
def stored(draw: st.DrawFn) -> dict[bytes, bytes]:
    """A key group's rows after some batches."""
    manifest = segments.Manifest(draw(COUNT))
    rows: dict[bytes, Any] = {}
    for changes in draw(st.lists(ENTRIES, max_size=4)):
        rows.update(segments.add_segment(manifest, 0, changes, [], segments.encode_segment(changes)))
    return rows


@st.composite
def damaged_rows(draw: st.DrawFn) -> dict[bytes, bytes]:
    rows = draw(stored())
    if rows:
        key = draw(st.sampled_from(sorted(rows)) | st.just(segments.MANIFEST_KEY))
        rows[key] = draw(mutated(st.just(rows[key])))
    return rows


@target("engine.manifest", damaged_rows())
def read_rows(rows: dict[bytes, bytes]) -> None:
    result_of(lambda: segments.entries_of(rows), avro.Malformed)


# Blocks: between processes of one version, so only the round trip counts


@target("engine.block", ITEMS, share=0.2)
def block_round(items: list[Item]) -> None:
    made = block.Block(0, 1, END_OF_TIME, [(1, 2, 3, 1, 4)])
    made.items = list(items)
    made.counts = {"a": 1}
    made.passed = [(0, None, b"v", [("h", None)])]
    got = block.unpack(made.pack())
    assert (got.items, got.counts, got.passed, got.marks) == (items, made.counts, made.passed, made.marks)


# Places


@target("engine.place", mutated(st.builds(place.carry, st.binary(max_size=9), COUNT, COUNT, st.binary(max_size=5))))
def read_place(value: bytes) -> None:
    assert place.time_of(value) is None or len(value) >= place.TIME_BYTES
    carried = result_of(lambda: place.carried_by(value), avro.Malformed)
    if carried is not None:
        assert place.carried_by(place.carry(*carried)) == carried


# JSON records of Kafka topics


def encoded(made: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """Encodings of `made`, with other values in their fields, and damaged."""
    documents = made.map(lambda record: json.loads(record.encode()))
    return mutated(made.map(lambda record: record.encode()) | reshaped(documents).map(dumped))


def dumped(document: Any) -> bytes:
    return json.dumps(document).encode()


MARKERS = st.builds(marker.Marker, st.text(max_size=9), COUNT, st.text(max_size=9))
CLAIMS = st.builds(marker.Claim, st.text(max_size=9), st.text(max_size=9))
ENDS = st.builds(
    ends.EndOfBatch,
    st.text(max_size=5),
    st.integers(-1, 2**62),
    TIME,
    st.lists(COUNT, max_size=3).map(tuple),
    st.none() | st.integers(1, 2**31),
    st.none() | COUNT,
    st.none() | st.integers(1, 2**31),
    st.dictionaries(st.text(max_size=5), JSON, max_size=2),
)
DEEP = b"[" * 3_000
DOCUMENTED = (ValueError, KeyError, TypeError)


@target("engine.marker", encoded(MARKERS), DEEP, b'{"epoch":7,"nextBatch":"1","digest":null}')
def read_marker(value: bytes) -> None:
    got = result_of(lambda: marker.decode(value), *DOCUMENTED)
    if got is not None:
        result_of(lambda: marker.decide(got, "e", [], 3, "s", "t"), marker.WrongMarker)
        assert marker.decode(got.encode()) == got


@target("engine.claim", encoded(CLAIMS), DEEP, b'{"instance":[],"who":0}')
def read_claim(value: bytes) -> None:
    got = result_of(lambda: marker.decode_claim(value), *DOCUMENTED)
    assert got is None or marker.decode_claim(got.encode()) == got


@target("engine.end", encoded(ENDS), DEEP, b'{"epoch":"e","batch":null,"watermark":"x","keyGroups":[null,-1]}')
def read_end(value: bytes) -> None:
    got = result_of(lambda: ends.decode(value), *DOCUMENTED)
    if got is not None:
        # what readers compute with
        assert all(group >= 0 for group in got.key_groups)
        assert type(got.batch) is int
        assert type(got.watermark_ms) is int
        assert type(got.epoch) is str
        assert ends.decode(got.encode()).key_groups == got.key_groups


# Plans


@target(
    "engine.plan", reshaped(plans().map(Plan.to_offset)), {}, [], {"version": "1"}, {"version": 1, "stateVersion": 1}
)
def read_plan(offset: Any) -> None:
    made = result_of(lambda: plan.from_offset(offset), NewerProgram, plan.Unreadable)
    if made is not None:
        again = plan.from_offset(made.to_offset())  # without topics that have no partition
        assert (again.partitions, again.rewrite, again.rules) == (made.partitions, made.rewrite, made.rules)
        assert plan.digest(offset)
