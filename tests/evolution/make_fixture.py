"""Makes the fixture of a release: a checkpoint of the job of the code at hand, and all that belongs to it in Kafka.

    python -m tests.evolution.make_fixture FOLDER

writes `checkpoint-v<state version>.tar.gz`. Run once for each release that raises the state version, with that
release's code, and kept for good (`tests/fixtures/README.md`). `tests/evolution/restore.py` is the way back.

In the archive:
    checkpoint/        the folder as the job left it; PATH_TOKEN stands for the path of it in Spark's own files
    about.json         program, Spark, state version, flags of `enrich`, topic prefix, partitions of the topics
    first.jsonl        the records of all topics at the checkpoint's end, by topic, partition and offset
    second.jsonl       the input that comes after it, in the order of sending
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moneystate.devbroker import DevBroker
from moneystate.engine.plan import STATE_VERSION
from services.enrichment import topics
from tests.evolution.workload import FLAGS, PARTITIONS, story
from tests.job.harness import Setup
from tests.kafka.logs import Cluster
from tests.reference import kafka_log, model

PREFIX = "kept-"
PATH_TOKEN = "@CHECKPOINT@"
BATCH_RECORDS = "180"
INPUTS = (*model.TIMED_TOPICS, model.LOOKUP_RESULTS)
OUTPUTS = (*topics.STREAMS, topics.CHANGELOG, topics.COMMITS)


def main() -> None:
    target = Path(sys.argv[1]) / f"checkpoint-v{STATE_VERSION}.tar.gz"
    with tempfile.TemporaryDirectory() as folder, DevBroker(Path(folder) / "broker") as broker:
        work = Path(folder) / "work"
        work.mkdir()
        make(Setup(broker.bootstrap_servers, PREFIX, work, PARTITIONS), target)
    print(f"{target}: {target.stat().st_size:,} bytes")


def make(setup: Setup, target: Path) -> None:
    """Run the job over the first part, to the end of the logs and without a drain, and pack what there is then."""
    cluster = Cluster(setup.bootstrap_servers, setup.prefix)
    for topic in INPUTS:
        cluster.create(topic, PARTITIONS)
    parts = story()
    timed = [record for record in parts.first if record.topic != model.LOOKUP_RESULTS]
    setup.send(timed)
    limit = ("--max-records-per-batch", BATCH_RECORDS)
    setup.run("--until-caught-up", *FLAGS, *limit)
    setup.send(record for record in parts.first if record.topic == model.LOOKUP_RESULTS)
    setup.run("--until-caught-up", *FLAGS, *limit)
    cluster.wait_until_stable(*(setup.prefix + topic for topic in OUTPUTS))
    records, partitions = kafka_log.read_log(setup.bootstrap_servers, (*INPUTS, *OUTPUTS), setup.prefix)
    about = {
        "program": version("moneystate"),
        "pyspark": version("pyspark"),
        "stateVersion": STATE_VERSION,
        "flags": FLAGS,
        "prefix": setup.prefix,
        "partitions": {topic: 1 + max(n for t, n in partitions if t == topic) for topic, _ in partitions},
    }
    _pack(setup.checkpoint, about, records, parts.second, target)


def _pack(
    checkpoint: Path,
    about: dict[str, Any],
    first: Iterable[model.LogRecord],
    second: Iterable[model.LogRecord],
    target: Path,
) -> None:
    files = {
        "about.json": json.dumps(about, indent=1).encode(),
        "first.jsonl": lines(first),
        "second.jsonl": lines(second),
    }
    for path in sorted(checkpoint.rglob("*")):
        if path.is_file() and "driver.log" not in path.name and not path.name.endswith(".crc"):
            content = path.read_bytes().replace(str(checkpoint).encode(), PATH_TOKEN.encode())
            files[f"checkpoint/{path.relative_to(checkpoint)}"] = content
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    target.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


def lines(records: Iterable[model.LogRecord]) -> bytes:
    """A JSON object in each line; bytes in base64."""
    return b"".join(json.dumps(_as_json(record), separators=(",", ":")).encode() + b"\n" for record in records)


def _as_json(r: model.LogRecord) -> dict[str, Any]:
    return {
        "topic": r.topic,
        "partition": r.partition,
        "offset": r.offset,
        "timestamp": r.timestamp_ms,
        "key": _text(r.key),
        "value": _text(r.value),
        "headers": [[name, _text(value)] for name, value in r.headers],
    }


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


if __name__ == "__main__":
    main()
