"""Which offsets a sample reads, and which keys it finds in a record."""

from __future__ import annotations

import json
import random
from collections import Counter
from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from moneystate.engine.processor import Rejected
from moneystate.registry.client import ANSWERS, Answers, RegisteredSchema
from moneystate.skew.key_fields import field_keys, kafka_key, parser
from moneystate.skew.slices import SLICES, slices
from tests.enrichment.jobs import SERVICE
from tests.reference.codec import encode

REGISTRY = "http://127.0.0.1:9"  # nobody answers: its one schema is known


def test_a_small_topic_is_read_whole() -> None:
    (ranges,) = slices({("t", 0): (5, 25), ("t", 1): (0, 0), ("t", 2): (0, 10)}, 30)
    assert [(r.partition, r.start, r.end) for r in ranges] == [(0, 5, 25), (2, 0, 10)]


def test_each_partition_is_sampled_in_all_its_parts_and_by_its_size() -> None:
    logs = {("t", 0): (1_000, 101_000), ("t", 1): (0, 50_000), ("t", 2): (0, 30), ("t", 3): (7, 7)}
    rounds = slices(logs, 3_000)
    assert len(rounds) == SLICES
    sizes: Counter[int] = Counter()
    for number, ranges in enumerate(rounds):
        for r in ranges:
            start, end = logs["t", r.partition]
            part = (end - start) / SLICES
            assert start + int(part * number) <= r.start < r.end <= start + part * (number + 1)
            sizes[r.partition] += r.end - r.start
    assert sizes == {0: 2_000, 1: 1_000, 2: 1}


def test_slices_never_overlap_and_are_about_as_many_records_as_wanted() -> None:
    chance = random.Random(4)
    for _ in range(300):
        starts = [chance.randint(0, 50) for _ in range(chance.randint(1, 64))]
        logs = {("t", n): (start, start + chance.choice((0, 1, 9, 300, 4_000))) for n, start in enumerate(starts)}
        total, wanted = sum(end - start for start, end in logs.values()), chance.randint(1, 5_000)
        seen: set[tuple[int, int]] = set()
        for ranges in slices(logs, wanted):
            assert len({r.partition for r in ranges}) == len(ranges)
            for r in ranges:
                offsets = {(r.partition, offset) for offset in range(r.start, r.end)}
                assert not offsets & seen
                seen |= offsets
        assert abs(len(seen) - min(wanted, total)) <= len(logs) / 2


def test_the_kafka_key_is_a_key() -> None:
    assert (kafka_key(b"k", b"v"), kafka_key(None, b"v")) == ([b"k"], [])


@pytest.mark.parametrize(
    ("document", "path", "keys"),
    [
        ({"user": {"id": "ann"}}, "user.id", [b"ann"]),
        ({"user": {"id": 17}}, "user.id", [b"17"]),
        ({"lines": [{"sku": "a"}, {"sku": "b"}, {}]}, "lines.sku", [b"a", b"b"]),
        ({"user": {"id": None}}, "user.id", []),
        ({"user": "ann"}, "user.id", []),
        ({"user": {"id": {"b": "2", "a": "1"}}}, "user.id", [b'{"a": "1", "b": "2"}']),
        ([1], "user", []),
    ],
)
def test_a_path_leads_to_keys(document: Any, path: str, keys: list[bytes]) -> None:
    assert field_keys(path, parser("json", "", ""))(b"k", json.dumps(document).encode()) == keys


def test_a_tombstone_has_no_key_of_its_value() -> None:
    assert field_keys("id", parser("json", "", ""))(b"k", None) == []


def test_avro_is_read_by_the_services_schemas() -> None:
    event = {"id": "s", "userId": "ann", "processedAt": 1, "clientCountryCode": "ES"}
    assert field_keys("userId", parser("avro", SERVICE, ""))(None, encode("UserSessionCreatedEvent", event)) == [b"ann"]


def test_confluent_values_are_read_by_their_writers_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"type": "record", "name": "Paid", "fields": [{"name": "user", "type": "long"}]}
    monkeypatch.setitem(ANSWERS, REGISTRY, Answers(schemas={3: RegisteredSchema(json.dumps(source))}))
    body = BytesIO()
    schemaless_writer(body, parse_schema(source), {"user": 12})
    read = field_keys("user", parser("confluent", "", REGISTRY))
    assert read(None, b"\0\0\0\0\3" + body.getvalue()) == [b"12"]
    with pytest.raises(Rejected):
        read(None, b"\0\0\0\0\3")


@pytest.mark.parametrize("value_format", ["json", "avro"])
def test_what_does_not_decode_is_told_apart(value_format: str) -> None:
    with pytest.raises(Rejected):
        field_keys("id", parser(value_format, SERVICE, ""))(None, b"{")
