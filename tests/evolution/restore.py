"""A fixture of an earlier release, put back: its topics on a broker, its checkpoint in a folder.

The logs have the records that they had, input at the same offsets. What a new broker and another folder make different
is put in: topic ids in the plans, the digests of these plans in the markers, the prefix, Spark's own absolute paths.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient

from moneystate.engine import marker as markers
from moneystate.engine import plan as plans
from moneystate.job.checkpoint import Checkpoint
from moneystate.kafka.offsets import topic_states
from services.enrichment import topics
from tests.evolution.make_fixture import INPUTS, PATH_TOKEN
from tests.job.harness import Setup
from tests.kafka.logs import Cluster
from tests.reference.model import LogRecord
from tests.tar import unpack

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
COMPACTED = (topics.CHANGELOG, topics.COMMITS)


class Restored(NamedTuple):
    """A checkpoint of an earlier release, restored."""

    about: dict[str, Any]
    flags: list[str]  # of `enrich`, as the checkpoint was made
    first: list[LogRecord]
    second: list[LogRecord]  # input that has not been read


def restore(version: int, setup: Setup) -> Restored:
    """Put `checkpoint-v<version>.tar.gz` into `setup`, whose prefix and folder are unused."""
    unpacked = setup.folder / "fixture"
    unpack(FIXTURES / f"checkpoint-v{version}.tar.gz", unpacked)
    (unpacked / "checkpoint").rename(setup.checkpoint)
    about = json.loads((unpacked / "about.json").read_text())
    first, second = _records(unpacked / "first.jsonl"), _records(unpacked / "second.jsonl")
    _create_topics(about["partitions"], setup)
    _patch_checkpoint(setup, setup.admin())
    prefixes = (about["prefix"], setup.prefix)
    setup.send(_patched(record, Checkpoint(str(setup.checkpoint)), *prefixes) for record in first)
    _check_offsets(first)
    return Restored(about, about["flags"], first, second)


def _create_topics(partitions: dict[str, int], setup: Setup) -> None:
    cluster = Cluster(setup.bootstrap_servers, setup.prefix)
    for topic, n in partitions.items():
        cluster.create(topic, n, **({"cleanup_policy": "compact"} if topic in COMPACTED else {}))


def _patch_checkpoint(setup: Setup, admin: AdminClient) -> None:
    root = setup.checkpoint
    for path in (root / "state").rglob("_metadata/*/*"):
        path.write_text(path.read_text().replace(PATH_TOKEN, str(root)))
    settings = root / "moneystate" / "settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "topic_prefix": setup.prefix}))
    states = topic_states(admin, [setup.prefix + topic for topic in INPUTS])
    ids = {topic: states[setup.prefix + topic].topic_id for topic in INPUTS}
    start = root / "moneystate" / "start.json"
    content = json.loads(start.read_text())
    start.write_text(json.dumps({**content, "offset": _with_ids(content["offset"], ids)}))
    for planned in (root / "offsets").iterdir():
        *spark, offset = planned.read_text().splitlines()
        planned.write_text("\n".join([*spark, json.dumps(_with_ids(json.loads(offset), ids))]))


def _with_ids(offset: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    of_topics = {topic: {**entry, "id": ids[topic]} for topic, entry in offset["topics"].items()}
    return {**offset, "topics": of_topics}


def _patched(record: LogRecord, checkpoint: Checkpoint, old: str, new: str) -> LogRecord:
    """Markers get the digest of the plan as it is now, dead letters the name of the topic that they came from."""
    if record.topic == topics.COMMITS and record.value is not None:
        marker = markers.decode(record.value)
        digest = plans.digest(checkpoint.offset(marker.next_batch - 1))
        return replace(record, value=markers.Marker(marker.epoch, marker.next_batch, digest).encode())
    if record.topic == topics.STREAMS[topics.DEAD_LETTERS]:
        headers = [(name, _renamed(name, content, old, new)) for name, content in record.headers]
        return replace(record, headers=tuple(headers))
    return record


def _renamed(header: str, content: bytes | None, old: str, new: str) -> bytes | None:
    if header != "moneystate.topic" or content is None:
        return content
    return new.encode() + content.removeprefix(old.encode())


def _check_offsets(first: list[LogRecord]) -> None:
    """Inputs were not written in transactions: without gaps, so that sending them again gives the same offsets."""
    for topic in INPUTS:
        mine = [record for record in first if record.topic == topic]
        for partition in {record.partition for record in mine}:
            offsets = [record.offset for record in mine if record.partition == partition]
            assert offsets == list(range(len(offsets))), f"gaps in {topic}/{partition}"


def _records(path: Path) -> list[LogRecord]:
    return [_record(json.loads(line)) for line in path.read_text().splitlines()]


def _record(r: dict[str, Any]) -> LogRecord:
    headers = tuple((name, _bytes(content)) for name, content in r["headers"])
    place = (r["topic"], r["partition"], r["offset"], r["timestamp"])
    return LogRecord(*place, _bytes(r["key"]), _bytes(r["value"]), headers)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
