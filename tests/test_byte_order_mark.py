"""Programs on Windows begin values and files with a byte order mark. It is skipped in JSON and in settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import moneystate as ms
from moneystate.bootstrap.files import read_file as read_archive
from moneystate.bootstrap.history import read_initial_highs
from moneystate.cli.service_config import read_file
from moneystate.engine.json_object import read_object
from moneystate.kafka.settings import kafka_settings, resolved
from moneystate.kafka.starting import offsets_from_file
from moneystate.records.json_members import readable_members
from moneystate.serving.client import Target
from moneystate.testing import Bench
from services.enrichment.demo import scenario
from tests.api.services import mailbox
from tests.formats.values import BY_NAME, JSON, canonical

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Row:
    k: str
    since: ms.Millis


@dataclass(frozen=True)
class Columns:
    k: str


@dataclass(frozen=True)
class Change:
    after: Columns | None
    ts_ms: ms.Millis
    before: Columns | None = None


def one_input(format: str, record: type[Any], key: str, time: str) -> Bench:
    service: Any = ms.Service("marked")
    rows = service.input("rows", record, key=key, time=time, format=format)
    service.on(rows)(lambda ctx, e: ctx.count("read"))
    return Bench(service)


@pytest.mark.parametrize(
    ("format", "record", "key", "time", "text"),
    [
        ("json", Row, "k", "since", '{"k":"a","since":5}'),
        ("debezium", Change, "after.k", "ts_ms", '{"ts_ms":5,"after":{"k":"a"}}'),
    ],
)
def test_a_value_in_json(format: str, record: type[Any], key: str, time: str, text: str) -> None:
    bench = one_input(format, record, key, time)
    bench.send_raw("rows", BOM + text.encode())
    assert (bench.count("read"), bench.dead_letters()) == (1, [])


def test_a_heartbeat_in_a_topic_that_a_function_reads() -> None:
    bench = Bench(mailbox.service, bound_ms=2_000)
    bench.send_raw("readings", BOM + b'{"type":"Heartbeat","processedAt":"1970-01-01T00:00:09Z"}')
    assert (bench.dead_letters(), bench.latest) == ([], 9_000)


def test_a_value_of_the_enrichment_and_the_members_of_a_broken_one() -> None:
    beat = JSON.to_canonical(BOM + b'{"type":"Heartbeat","processedAt":"1970-01-01T00:00:09Z"}')
    assert beat == canonical(BY_NAME["Heartbeat"], {"processedAt": 9_000})
    assert readable_members(BOM + b'{"a":"b"}') == {"a": "b"}


def test_settings_in_toml_and_properties(tmp_path: Path) -> None:
    toml, properties, secret = tmp_path / "run.toml", tmp_path / "kafka.properties", tmp_path / "secret"
    toml.write_bytes(BOM + b'[joining]\r\nservices = ["a"]\r\n')
    secret.write_bytes(BOM + b"hunter2\r\n")
    properties.write_bytes(BOM + f"sasl.password=${{file:{secret}}}\r\n".encode())
    assert read_file(toml) == {"joining": {"services": ["a"]}}
    assert resolved(kafka_settings(properties, {})) == {"sasl.password": "hunter2"}


def test_files_of_json(tmp_path: Path) -> None:
    offsets, highs, archive = tmp_path / "offsets.json", tmp_path / "highs.json", tmp_path / "00.jsonl"
    offsets.write_bytes(BOM + b'{"rows":{"0":7}}')
    highs.write_bytes(BOM + b'{"rows":{"0":null}}')
    archive.write_bytes(BOM + b'{"offset":3,"value":{"k":"a"}}\r\n')
    assert offsets_from_file(offsets, ["rows"], "--starting-offsets") == {("rows", 0): 7}
    assert read_initial_highs(highs, ["rows"]) == {("rows", 0): None}
    assert [record.value for record in read_archive(archive)] == [b'{"k":"a"}']
    assert read_object(BOM.decode() + "{}") == read_object(BOM + b"{}") == {}


def test_a_token_and_a_scenario(tmp_path: Path) -> None:
    token, story = tmp_path / "token", tmp_path / "story.jsonl"
    token.write_bytes(BOM + b"abc\r\n")
    assert Target("127.0.0.1:1", token_file=str(token)).metadata() == (("authorization", "Bearer abc"),)
    story.write_bytes(BOM + scenario.SHIPPED.read_bytes())
    assert scenario.load(story) == scenario.load()
