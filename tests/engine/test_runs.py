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
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.engine import avro, clock, runs
from moneystate.engine.avro import HEADER_BYTES
from moneystate.engine.runs import CHUNK_BYTES, FAN, Manifest, Run

ROOT = Path(__file__).resolve().parents[2]
Changes = dict[bytes, bytes | None]
changes_of = st.dictionaries(st.binary(max_size=40), st.none() | st.binary(max_size=300), max_size=40)


def as_avro(record: str, entry: bytes) -> Any:
    schema = fastavro.parse_schema(json.loads((ROOT / f"avro/state/{record}/v1.avsc").read_text()))
    return fastavro.schemaless_reader(io.BytesIO(entry[HEADER_BYTES:]), schema, None)


def golden_manifest() -> Manifest:
    manifest = Manifest(2**61)
    manifest.number, manifest.next_run, manifest.check = 4_100, 9, 0xFFFFFFFF
    manifest.runs = [Run(0, 5, 1, 4_096, 300, 2**36), Run(8, 0, 4_100, 4_100, 1, 77)]
    return manifest


GOLDEN_CHANGES: Changes = {b"u" + b"ann": b"\xc3\x01" + bytes(range(90)), b"c": b"", b"": None, b"p\x00\xff": None}


def golden(name: str) -> str:
    return "".join((ROOT / "tests/golden/v1" / f"{name}.hex").read_text().split())


def test_the_bytes_of_version_1_never_change() -> None:
    assert runs.encode_manifest(golden_manifest()).hex() == golden("StateManifest")
    assert [chunk.hex() for chunk in runs.encode_run(GOLDEN_CHANGES)] == [golden("StateRun")]


def test_golden_bytes_are_read_back() -> None:
    manifest = runs.decode_manifest(bytes.fromhex(golden("StateManifest")))
    assert runs.encode_manifest(manifest).hex() == golden("StateManifest")
    found: Changes = {}
    runs.decode_chunk(bytes.fromhex(golden("StateRun")), found)
    assert found == GOLDEN_CHANGES


def test_other_avro_readers_see_the_same() -> None:
    seen = as_avro("StateManifest", runs.encode_manifest(golden_manifest()))
    assert (seen["origin"], seen["number"], seen["nextRun"], seen["check"]) == (2**61, 4_100, 9, 0xFFFFFFFF)
    assert seen["runs"][1] == {"run": 8, "level": 0, "first": 4_100, "last": 4_100, "chunks": 1, "bytes": 77}
    entries = as_avro("StateRun", runs.encode_run(GOLDEN_CHANGES)[0])["entries"]
    assert {entry["key"]: entry["value"] for entry in entries} == GOLDEN_CHANGES


@settings(deadline=None)
@given(changes_of)
def test_a_run_says_what_it_was_made_of(changes: Changes) -> None:
    found: Changes = {}
    for chunk in runs.encode_run(changes):
        runs.decode_chunk(chunk, found)
    assert found == changes
    assert runs.encode_run(dict(reversed(changes.items()))) == runs.encode_run(changes)


def test_chunks_are_bounded_but_for_an_entry_that_is_larger() -> None:
    large = bytes(CHUNK_BYTES + 200)
    chunks = runs.encode_run({b"%06d" % n: b"x" * 1_000 for n in range(1_000)} | {b"large": large})
    sizes = [len(chunk) for chunk in chunks]
    *others, largest = sorted(sizes)
    assert largest > CHUNK_BYTES + 200
    assert others[-1] <= CHUNK_BYTES + 100
    assert len(sizes) <= 7


@pytest.mark.parametrize("entry", [None, b"", b"\xc3\x01" + bytes(8), clock.encode(clock.Clock())])
def test_a_chunk_that_is_missing_or_another_thing_is_an_error(entry: bytes | None) -> None:
    with pytest.raises(avro.Malformed):
        runs.decode_chunk(entry, {})


def test_a_program_that_knows_no_runs_is_stopped_by_the_manifest() -> None:
    """It looks for the clock under this key, and must not begin anew."""
    assert runs.MANIFEST_KEY == clock.KEY
    with pytest.raises(avro.Malformed, match="newer"):
        clock.decode(runs.encode_manifest(Manifest(1)))


def test_runs_stay_few_and_entries_are_rewritten_once_a_level() -> None:
    batches = FAN**4
    manifest, written = Manifest(1), 0
    most = 0
    for number in range(1, batches + 1):
        merged, level = runs.to_merge(manifest, runs.level_due(number, 0))
        assert manifest.runs[len(manifest.runs) - len(merged) :] == merged  # always the newest
        changes: dict[bytes, bytes | None] = {b"%d" % number: b"v"}
        for run in merged:
            changes.update([(b"%d" % n, b"v") for n in range(run.first, run.last + 1)])
        runs.add_run(manifest, level, changes, merged, runs.encode_run(changes))
        written += sum(run.last - run.first + 1 for run in merged) + 1
        most = max(most, len(manifest.runs))
        assert [run.first for run in manifest.runs[1:]] == [run.last + 1 for run in manifest.runs[:-1]]
    assert most <= (FAN - 1) * 4
    assert len(manifest.runs) == 1
    assert written <= batches * 5


@pytest.mark.parametrize("touched", [100, 30, 5])
def test_entries_that_change_again_and_again_do_not_pile_up(touched: int) -> None:
    """100 entries, of which each batch changes as many: they bound the runs, whatever the number of batches."""
    manifest, contents, whole = Manifest(1), dict[int, dict[bytes, bytes | None]](), 0
    random = Random(touched)
    written = made = 0
    for number in range(1, 2_000):
        changes: dict[bytes, bytes | None] = {
            b"%d" % n: random.randbytes(50) for n in random.sample(range(100), touched)
        }
        made += sum(map(len, runs.encode_run(changes)))
        merged, level = runs.to_merge(manifest, runs.level_due(number, 0))
        content: dict[bytes, bytes | None] = {}
        for run in merged:
            content.update(contents.pop(run.name))
        content.update(changes)
        runs.add_run(manifest, level, content, merged, runs.encode_run(changes))
        contents[manifest.runs[-1].name] = content
        written += manifest.runs[-1].size
        whole = max(whole, sum(run.size for run in manifest.runs))
    state = sum(map(len, runs.encode_run({b"%d" % n: bytes(50) for n in range(100)})))
    assert whole <= 7 * touched / 100 * state + 4 * state
    assert written <= 4 * made


def test_key_groups_merge_in_different_batches() -> None:
    phases = [runs.phase_of(group) for group in range(64)]
    at_once = Counter(number for number in range(1, 513) for p in phases if runs.level_due(number, p) >= 2)
    assert max(at_once.values()) <= 8
