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
from moneystate.records.other_versions import AnyVersion
from moneystate.records.schema import fingerprint_of, schema_of
from moneystate.records.schema_set import SchemaSet
from moneystate.runtime.folders import folder_of
from moneystate.runtime.job import topic_records
from moneystate.schemas import topic_schemas
from moneystate.schemas.tree import is_state, tree_of
from moneystate.schemas.tree import read_folder as read
from tests.enrichment import topics
from tests.enrichment.jobs import DECODER, SERVICE
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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The enrichment's schemas with a second version of an event, which has a new field."""
    root = Path(shutil.copytree(folder_of(SERVICE), tmp_path / "avro"))
    schema = json.loads((root / f"{NAME}.avsc").read_text())
    schema["fields"].insert(2, FLOOR)
    (root / NAME).mkdir()
    (root / NAME / "v2.avsc").write_text(json.dumps(schema))
    monkeypatch.setattr(topic_schemas, "folder_of", lambda service: root)
    return root


def in_version(folder: Path, number: int, event: dict[str, Any]) -> bytes:
    version = tree_of(read(folder)).versions[NAME][number]
    schema, names = parsed(version.source)
    return MAGIC + bytes.fromhex(version.fingerprint) + encode(schema, names, event)


def test_the_enrichment_declares_the_current_version_of_each_type() -> None:
    tree = tree_of(read(folder_of(SERVICE)))
    current = {tree.current_version(name).fingerprint for name in tree.versions if not is_state(name)}
    assert {fingerprint_of(schema_of(record)) for record in topic_records(topics.PLAN).values()} == current


def test_a_producer_that_is_ahead_is_read_as_the_current_version(folder: Path) -> None:
    ahead = in_version(folder, 2, {**EVENT, "floor": (1, "third")})
    assert DECODER.decode(topics.USER_EVENTS, codec.encode("ChangeAddressEvent", EVENT))[1:] == (
        EVENT["processedAt"],
        b"ann",
    )
    with pytest.raises(Rejected, match="unknown_schema"):
        DECODER.decode(topics.USER_EVENTS, ahead)
    got = AnyVersion(topic_schemas.schema_set(SERVICE))(ahead)
    assert got == codec.encode("ChangeAddressEvent", EVENT)


def test_a_producer_that_is_behind_is_read_as_the_current_version(folder: Path) -> None:
    first, second = (tree_of(read(folder)).versions[NAME][number].source for number in (1, 2))
    got = AnyVersion(SchemaSet([second], [first]))(codec.encode("ChangeAddressEvent", EVENT))
    assert got == in_version(folder, 2, {**EVENT, "floor": (0, None)})


def test_the_current_version_and_what_is_none_pass_as_they_are(folder: Path) -> None:
    either = AnyVersion(topic_schemas.schema_set(SERVICE))
    for value in (codec.encode("ChangeAddressEvent", EVENT), b"", b"\xc3\x01", b"\x00not avro", MAGIC + bytes(8)):
        assert either(value) == value
    with pytest.raises(Rejected, match="null_value"):
        either(None)


def test_a_cut_value_of_another_version_is_malformed(folder: Path) -> None:
    ahead = in_version(folder, 2, {**EVENT, "floor": (1, "third")})
    either = AnyVersion(topic_schemas.schema_set(SERVICE))
    for value, reason in (
        (ahead[:-1], "malformed"),
        (ahead + b"\0", "trailing_bytes"),
        (ahead[:HEADER_BYTES], "malformed"),
    ):
        with pytest.raises(Rejected, match=reason):
            either(value)


def test_it_travels_to_tasks(folder: Path) -> None:
    ahead = in_version(folder, 2, {**EVENT, "floor": (1, "third")})
    either = AnyVersion(topic_schemas.schema_set(SERVICE))
    read = either(ahead)
    assert pickle.loads(pickle.dumps(either))(ahead) == read


def test_avro_topics_are_converted_only_where_there_is_more_than_one_version(request: pytest.FixtureRequest) -> None:
    inputs: list[InputTopic] = topics.PLAN.input_topics()
    assert convert.converters({}, inputs, None, service=SERVICE) == {}
    folder = request.getfixturevalue("folder")
    convert._schemas.cache_clear()
    made = convert.converters({}, inputs, None, service=SERVICE)
    convert._schemas.cache_clear()
    ahead = in_version(folder, 2, {**EVENT, "floor": (1, "third")})
    assert set(made) == {t.code for t in inputs}
    assert made[topics.USER_EVENTS](ahead) == codec.encode("ChangeAddressEvent", EVENT)
