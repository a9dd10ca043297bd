"""The folder of a savepoint: whole or not there, and every damage is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.engine.items import Output
from moneystate.errors import SavepointError
from moneystate.savepoint.format import Savepoint, begin, check_free, finish, partial, write_output, write_state
from moneystate.savepoint.manifest import BOOTSTRAP, ChangelogPosition, Manifest, decode_manifest
from tests.budget import examples
from tests.savepoint.make import empty_savepoint

Damage = Callable[[Path], object]
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "savepoint"
POSITION: dict[str, Any] = {
    "topic_id": "t",
    "positions": {"0": 7, "1": 9},
    "read_ms": 2,
    "written_at_ms": 1,
    "rules": {"dedup_ttl_ms": 3},
}

bytes_or_none = st.one_of(st.none(), st.binary(max_size=20))
headers = st.lists(st.tuples(st.text(max_size=5), bytes_or_none), max_size=2)
outputs = st.lists(st.tuples(st.integers(0, 2), bytes_or_none, bytes_or_none, headers), max_size=5)


@settings(max_examples=examples(20))  # each writes and syncs files
@given(st.dictionaries(st.binary(min_size=1), st.binary(), max_size=20), outputs)
def test_entries_and_outputs_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[bytes, bytes], put_out: list[Output]
) -> None:
    out = tmp_path_factory.mktemp("made") / "savepoint"
    folder = begin(out)
    files = [write_state(folder, 0, sorted(entries.items()))]
    more = [write_output(folder, 0, put_out)]
    finish(out, Manifest(BOOTSTRAP, "", "job", [], {}, 1, 1, None, 0, {}, "", files, more))
    assert dict(Savepoint(out).entries(0)) == entries
    assert list(Savepoint(out).outputs(0)) == put_out


def test_entries_out_of_order_are_a_mistake_of_the_writer(tmp_path: Path) -> None:
    folder = begin(tmp_path / "savepoint")
    with pytest.raises(ValueError, match="sorted"):
        write_state(folder, 0, [(b"b", b""), (b"a", b"")])


def test_until_it_is_whole_there_is_nothing_under_its_name(tmp_path: Path) -> None:
    out = tmp_path / "savepoint"
    write_state(begin(out), 0, [])
    assert not out.exists()
    write_state(begin(out), 0, [])  # what an earlier attempt left does not hinder another
    assert [path.name for path in (partial(out) / "state").iterdir()] == ["group-00000.avro"]


def test_a_folder_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(SavepointError):
        check_free(tmp_path)
    with pytest.raises(SavepointError):
        check_free(tmp_path / "none" / "savepoint")


def field(name: str, value: object) -> Damage:
    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))

    return change


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "state" / "group-00003.avro").unlink(),
        lambda folder: (folder / "state" / "group-00003.avro").write_bytes(b"short"),
        field("format", 3),
        field("changelog", {"topic_id": "t"}),
        field("changelog", {**POSITION, "positions": {"1": 7}}),
        field("changelog", {**POSITION, "read_ms": "now"}),
        field("state_version", 99),
        field("key_groups", 9),
        field("unheard", "of"),
    ],
)
def test_what_is_not_whole_or_newer_is_refused_when_it_is_opened(tmp_path: Path, damage: Damage) -> None:
    folder = empty_savepoint(tmp_path / "savepoint")
    damage(folder)
    with pytest.raises(SavepointError):
        Savepoint(folder)


def test_a_file_of_the_same_size_with_another_content_is_found_before_its_first_record(tmp_path: Path) -> None:
    folder = empty_savepoint(tmp_path / "savepoint")
    path = folder / "state" / "group-00003.avro"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(SavepointError):
        next(Savepoint(folder).entries(3))


@pytest.mark.parametrize(("name", "changelog"), [("v1", None), ("v2", ChangelogPosition(**POSITION))])
def test_manifests_of_each_format_are_as_they_were(name: str, changelog: ChangelogPosition | None) -> None:
    text = (GOLDEN / f"manifest-{name}.json").read_text()
    manifest = decode_manifest(text, name)
    assert manifest.changelog == changelog
    assert manifest.encode() == text
