"""Events of several released versions in one topic: producers are ahead or behind, the core reads one version."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from moneystate.engine.avro import HEADER_BYTES, MAGIC
from moneystate.engine.processor import InputTopic, Rejected
from moneystate.kafka import convert
from moneystate.kafka.formats import SchemaSet, Undecodable
from moneystate.kafka.formats.versions import AnyVersion
from moneystate.records.schema import fingerprint_of, schema_of
from moneystate.runtime.folders import avro_root
from moneystate.runtime.job import topic_records
from moneystate.schemas.tree import RELEASED, is_state, release, tree_of
from moneystate.schemas.tree import read_folder as read
from tests.enrichment import topics
from tests.enrichment.jobs import DECODER
from tests.evolution.avro_bytes import encode, parsed
from tests.reference import codec

NAME = "events/ChangeAddressEvent"
EVENT: dict[str, Any] = {
    "id": "a1",
    "userId": "ann",
    "processedAt": 1_700_000_000_000,
    "address": "here",
    "residentCountryCode": "FI",
    "postalCode": "1",
}
FLOOR = {"name": "floor", "type": ["null", "string"], "default": None}


@pytest.fixture
def avro(tmp_path: Path) -> Path:
    """The schemas with a second version of an event: a new field, and one that was renamed."""
    root = Path(shutil.copytree(avro_root(), tmp_path / "avro"))
    schema = json.loads((root / f"{NAME}.avsc").read_text())
    schema["fields"].insert(2, FLOOR)
    (root / NAME).mkdir()
    (root / NAME / "v2.avsc").write_text(json.dumps(schema))
    return root


def in_version(avro: Path, number: int, event: dict[str, Any]) -> bytes:
    version = tree_of(read(avro)).versions[NAME][number]
    schema, names = parsed(version.source)
    return MAGIC + bytes.fromhex(version.fingerprint) + encode(schema, names, event)


def test_the_enrichment_declares_the_current_version_of_each_type() -> None:
    tree = tree_of(read(avro_root()))
    current = {tree.current_version(name).fingerprint for name in tree.versions if not is_state(name)}
    assert {fingerprint_of(schema_of(record)) for record in topic_records(topics.PLAN).values()} >= current


def test_a_producer_that_is_ahead_is_read_as_the_current_version(avro: Path) -> None:
    ahead = in_version(avro, 2, {**EVENT, "floor": (1, "third")})
    assert DECODER.decode(topics.USER_EVENTS, codec.encode("ChangeAddressEvent", EVENT))[1:] == (
        EVENT["processedAt"],
        b"ann",
    )
    with pytest.raises(Rejected, match="unknown_schema"):
        DECODER.decode(topics.USER_EVENTS, ahead)
    got = AnyVersion(SchemaSet.load(avro)).to_canonical(ahead)
    assert got == codec.encode("ChangeAddressEvent", EVENT)


def test_a_producer_that_is_behind_is_read_as_the_current_version(avro: Path) -> None:
    tree = tree_of(read(avro))
    (avro / RELEASED).write_text(release(tree, {NAME: 2}))
    got = AnyVersion(SchemaSet.load(avro)).to_canonical(codec.encode("ChangeAddressEvent", EVENT))
    assert got == in_version(avro, 2, {**EVENT, "floor": (0, None)})


def test_the_current_version_and_what_is_none_pass_as_they_are(avro: Path) -> None:
    either = AnyVersion(SchemaSet.load(avro))
    for value in (codec.encode("ChangeAddressEvent", EVENT), b"", b"\xc3\x01", b"\x00not avro", MAGIC + bytes(8)):
        assert either.to_canonical(value) == value
    with pytest.raises(Undecodable, match="null_value"):
        either.to_canonical(None)


def test_a_cut_value_of_another_version_is_malformed(avro: Path) -> None:
    ahead = in_version(avro, 2, {**EVENT, "floor": (1, "third")})
    either = AnyVersion(SchemaSet.load(avro))
    for value, reason in (
        (ahead[:-1], "malformed"),
        (ahead + b"\0", "trailing_bytes"),
        (ahead[:HEADER_BYTES], "malformed"),
    ):
        with pytest.raises(Undecodable, match=reason):
            either.to_canonical(value)


def test_it_travels_to_tasks(avro: Path) -> None:
    ahead = in_version(avro, 2, {**EVENT, "floor": (1, "third")})
    either = AnyVersion(SchemaSet.load(avro))
    assert pickle.loads(pickle.dumps(either)).to_canonical(ahead) == either.to_canonical(ahead)


def test_plain_topics_are_converted_only_where_there_is_more_than_one_version(
    avro: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs: list[InputTopic] = topics.PLAN.input_topics()
    assert convert.converters({}, inputs, None) == {}
    monkeypatch.setattr(convert, "avro_root", lambda: avro)
    monkeypatch.setattr(convert, "_schemas", lambda _: SchemaSet.load(avro))
    made = convert.converters({}, inputs, None)
    ahead = in_version(avro, 2, {**EVENT, "floor": (1, "third")})
    assert set(made) == {t.code for t in inputs}
    assert made[topics.USER_EVENTS](ahead) == codec.encode("ChangeAddressEvent", EVENT)
