"""The work folder of a bootstrap: its plan and its finished parts, so that it can be resumed.

bootstrap.json   the settings, the history with its cut, and the chunks: the same for every run on this folder
segments/        moneystate.bootstrap.shuffle_files
savepoint/       the unfinished savepoint; results/ has the results of its key groups
"""

from __future__ import annotations

import json
import marshal
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moneystate.bootstrap.chunks import Chunk
from moneystate.bootstrap.history import FileRange, History, PartitionHistory
from moneystate.engine.plan import TopicPartition
from moneystate.errors import SetupError

NAME = "bootstrap.json"
VERSION = 5


@dataclass(frozen=True)
class BootstrapPlan:
    """The decisions of a bootstrap's start."""

    history: History
    chunks: list[Chunk]
    tasks: list[list[int]]  # for each source task: indexes in the history of the partitions that it reads
    # recorded ones, by the chunk after which they are reached
    watermarks: Mapping[int, int] = field(default_factory=dict)
    # Tells where the first load of each partition of a table ends, if other inputs wait for it.
    loaded: Mapping[TopicPartition, int] = field(default_factory=dict)


def settings_of(rules: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Settings that must be the same when a bootstrap is resumed, including those that its shuffle files depend on."""
    python = ".".join(str(n) for n in sys.version_info[:2])
    program = {"version": VERSION, "program": version("moneystate"), "python": python, "marshal": marshal.version}
    settings: dict[str, Any] = json.loads(json.dumps({**program, **more, "rules": dict(rules)}))
    return settings


def resume(work: Path, settings: Mapping[str, Any]) -> BootstrapPlan | None:
    """The plan of an earlier run; None: there was none. Raises SetupError if it had other settings."""
    if not (work / NAME).exists():
        return None
    try:
        saved = json.loads((work / NAME).read_text())
        chunks = [_chunk(c) for c in saved["chunks"]]
        watermarks = {int(chunk): watermark_ms for chunk, watermark_ms in saved["watermarks"].items()}
        loaded = {(topic, partition): offset for topic, partition, offset in saved["loaded"]}
        started = BootstrapPlan(_history(saved["history"]), chunks, saved["tasks"], watermarks, loaded)
        before = saved["settings"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise SetupError(f"{work / NAME}: expected the plan of a bootstrap, but {e}.", "remove the folder.") from None
    other = sorted(name for name in settings.keys() | before.keys() if settings.get(name) != before.get(name))
    if other:
        raise SetupError(
            f"{work}: expected a bootstrap with the same settings to resume, found changes in {', '.join(other)}.",
            "give the same flags, remove the folder, or give another --work.",
        )
    return started


def begin(work: Path, settings: Mapping[str, Any], started: BootstrapPlan) -> None:
    for folder in ("segments", "savepoint", "results"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    chunks = [[[t, p, start, end] for (t, p), (start, end) in chunk.items()] for chunk in started.chunks]
    history = asdict(started.history)
    content = {"settings": settings, "history": history, "chunks": chunks, "tasks": started.tasks}
    loaded = [[*tp, offset] for tp, offset in started.loaded.items()]
    write_json(work / NAME, {**content, "watermarks": dict(started.watermarks), "loaded": loaded})


def write_json(path: Path, content: Any) -> None:
    """Writes the file completely or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w") as f:
        json.dump(content, f)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)


def _chunk(rows: list[list[Any]]) -> Chunk:
    return {(topic, partition): (start, end) for topic, partition, start, end in rows}


def _history(fields: Mapping[str, Any]) -> History:
    partitions = []
    for p in fields["partitions"]:
        files = [FileRange(**file_range) for file_range in p["files"]]
        points = [(offset, ms) for offset, ms in p["points"]]
        partitions.append(PartitionHistory(**{**p, "files": files, "points": points}))
    return History(partitions, fields["topic_ids"])
