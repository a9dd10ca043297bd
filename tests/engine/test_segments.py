"""Runs: their bytes, how they are bounded, and when they are merged."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.engine import avro, clock, segments
from moneystate.engine.avro import HEADER_BYTES
from moneystate.engine.segments import CHUNK_BYTES, FANOUT, Manifest, Segment

ROOT = Path(__file__).resolve().parents[2]
Changes = dict[bytes, bytes | None]
changes_of = st.dictionaries(st.binary(max_size=40), st.none() | st.binary(max_size=300), max_size=40)


def as_avro(record: str, entry: bytes) -> Any:
    schema = fastavro.parse_schema(json.loads((ROOT / f"avro/state/{record}/v1.avsc").read_text()))
    return fastavro.schemaless_reader(io.BytesIO(entry[HEADER_BYTES:]), schema, None)


def golden_manifest() -> Manifest:
    manifest = Manifest(2**61)
    manifest.number, manifest.next_segment, manifest.check = 4_100, 9, 0xFFFFFFFF
    manifest.segments = [Segment(0, 5, 1, 4_096, 300, 2**36), Segment(8, 0, 4_100, 4_100, 1, 77)]
    return manifest


GOLDEN_CHANGES: Changes = {b"u" + b"ann": b"\xc3\x01" + bytes(range(90)), b"c": b"", b"": None, b"p\x00\xff": None}


def golden(name: str) -> str:
    return "".join((ROOT / "tests/golden/v1" / f"{name}.hex").read_text().split())


def test_the_bytes_of_version_1_never_change() -> None:
    assert segments.encode_manifest(golden_manifest()).hex() == golden("StateManifest")
    assert [chunk.hex() for chunk in segments.encode_segment(GOLDEN_CHANGES)] == [golden("StateRun")]


def test_golden_bytes_are_read_back() -> None:
    manifest = segments.decode_manifest(bytes.fromhex(golden("StateManifest")))
    assert segments.encode_manifest(manifest).hex() == golden("StateManifest")
    decoded: Changes = {}
    segments.decode_chunk(bytes.fromhex(golden("StateRun")), decoded)
    assert decoded == GOLDEN_CHANGES


def test_other_avro_readers_see_the_same() -> None:
    seen = as_avro("StateManifest", segments.encode_manifest(golden_manifest()))
    assert (seen["origin"], seen["number"], seen["nextRun"], seen["check"]) == (2**61, 4_100, 9, 0xFFFFFFFF)
    assert seen["runs"][1] == {"run": 8, "level": 0, "first": 4_100, "last": 4_100, "chunks": 1, "bytes": 77}
    entries = as_avro("StateRun", segments.encode_segment(GOLDEN_CHANGES)[0])["entries"]
    assert {entry["key"]: entry["value"] for entry in entries} == GOLDEN_CHANGES


@given(changes_of)
def test_a_run_says_what_it_was_made_of(changes: Changes) -> None:
    decoded: Changes = {}
    for chunk in segments.encode_segment(changes):
        segments.decode_chunk(chunk, decoded)
    assert decoded == changes
    assert segments.encode_segment(dict(reversed(changes.items()))) == segments.encode_segment(changes)


def test_chunks_are_bounded_but_for_an_entry_that_is_larger() -> None:
    large = bytes(CHUNK_BYTES + 200)
    chunks = segments.encode_segment({b"%06d" % n: b"x" * 1_000 for n in range(1_000)} | {b"large": large})
    sizes = [len(chunk) for chunk in chunks]
    *others, largest = sorted(sizes)
    assert largest > CHUNK_BYTES + 200
    assert others[-1] <= CHUNK_BYTES + 100
    assert len(sizes) <= 7


@pytest.mark.parametrize("entry", [None, b"", b"\xc3\x01" + bytes(8), clock.encode(clock.Clock())])
def test_a_chunk_that_is_missing_or_another_thing_is_an_error(entry: bytes | None) -> None:
    with pytest.raises(avro.Malformed):
        segments.decode_chunk(entry, {})


def test_a_program_that_knows_no_runs_is_stopped_by_the_manifest() -> None:
    """It looks for the clock under this key, and must not begin again."""
    assert segments.MANIFEST_KEY == clock.KEY
    with pytest.raises(avro.Malformed, match="newer"):
        clock.decode(segments.encode_manifest(Manifest(1)))


def test_runs_stay_few_and_entries_are_rewritten_once_a_level() -> None:
    batches = FANOUT**4
    manifest, written = Manifest(1), 0
    most = 0
    for number in range(1, batches + 1):
        merged, tier = segments.merge_inputs(manifest, segments.tier_due(number, 0))
        assert manifest.segments[len(manifest.segments) - len(merged) :] == merged  # always the newest
        changes: dict[bytes, bytes | None] = {b"%d" % number: b"v"}
        for segment in merged:
            changes.update([(b"%d" % n, b"v") for n in range(segment.first, segment.last + 1)])
        segments.add_segment(manifest, tier, changes, merged, segments.encode_segment(changes))
        written += sum(segment.last - segment.first + 1 for segment in merged) + 1
        most = max(most, len(manifest.segments))
        assert [segment.first for segment in manifest.segments[1:]] == [
            segment.last + 1 for segment in manifest.segments[:-1]
        ]
    assert most <= (FANOUT - 1) * 4
    assert len(manifest.segments) == 1
    assert written <= batches * 5


@pytest.mark.parametrize("touched", [100, 30, 5])
def test_entries_that_change_again_and_again_do_not_pile_up(touched: int) -> None:
    """100 entries, of which each batch changes as many: they bound the segments, whatever the number of batches."""
    manifest, contents, whole = Manifest(1), dict[int, dict[bytes, bytes | None]](), 0
    random = Random(touched)
    written = made = 0
    for number in range(1, 2_000):
        changes: dict[bytes, bytes | None] = {
            b"%d" % n: random.randbytes(50) for n in random.sample(range(100), touched)
        }
        made += sum(map(len, segments.encode_segment(changes)))
        merged, tier = segments.merge_inputs(manifest, segments.tier_due(number, 0))
        content: dict[bytes, bytes | None] = {}
        for segment in merged:
            content.update(contents.pop(segment.name))
        content.update(changes)
        segments.add_segment(manifest, tier, content, merged, segments.encode_segment(changes))
        contents[manifest.segments[-1].name] = content
        written += manifest.segments[-1].size
        whole = max(whole, sum(segment.size for segment in manifest.segments))
    state = sum(map(len, segments.encode_segment({b"%d" % n: bytes(50) for n in range(100)})))
    assert whole <= 7 * touched / 100 * state + 4 * state
    assert written <= 4 * made


def test_key_groups_merge_in_different_batches() -> None:
    phases = [segments.phase_of(group) for group in range(64)]
    at_once = Counter(number for number in range(1, 513) for p in phases if segments.tier_due(number, p) >= 2)
    assert max(at_once.values()) <= 8
