"""Which archives are read, in which order, and which are refused by name with nothing written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from moneystate.bootstrap.files import read_file, write_file
from moneystate.bootstrap.job import READING, Progress
from moneystate.bootstrap.layout import NOTE, RangeNote
from moneystate.errors import ArchiveError, ConfigError, MoneystateError, SetupError
from moneystate.savepoint.format import Savepoint
from moneystate.testing.simulation import Input
from tests.bootstrap.harness import NAMES, bootstrap, write_archive
from tests.enrichment.harness import inputs
from tests.enrichment.jobs import Rules
from tests.job.harness import small_workload

RULES = Rules()
WALLET = "wallet-events"


@pytest.fixture(scope="module")
def records() -> list[Input]:
    return inputs(small_workload("--events", "150"))


@pytest.fixture
def archive(tmp_path: Path, records: list[Input]) -> Path:
    write_archive(tmp_path / "archive", records, places(records), per_file=20)
    return tmp_path / "archive"


def places(records: list[Input]) -> set[tuple[int, int]]:
    return {(r.topic, r.partition) for r in records}


def run(archive: Path, name: str = "savepoint", **more: Any) -> Savepoint:
    return bootstrap(RULES, archive.parent / name, sources=[str(archive)], **more)


def files(archive: Path, topic: str = WALLET, partition: int = 0) -> list[Path]:
    return sorted((archive / topic / str(partition)).glob("*-*"), key=lambda p: int(p.stem.partition("-")[0]))


def test_records_without_offsets_are_in_the_order_of_files_and_lines_and_have_no_timestamp(
    tmp_path: Path, records: list[Input]
) -> None:
    untimed = [r._replace(timestamp_ms=-1) for r in records]
    write_archive(tmp_path / "with", untimed, places(records), "jsonl", per_file=9)
    write_archive(tmp_path / "without", records, places(records), "jsonl", per_file=9, with_offsets=False)
    with_offsets, without = run(tmp_path / "with", "one"), run(tmp_path / "without", "other")
    assert without.manifest.fingerprint == with_offsets.manifest.fingerprint
    assert with_offsets.manifest.plan is not None
    assert without.manifest.plan is None  # they are no offsets to go on from


def test_the_plan_goes_on_where_the_archive_ends(archive: Path, records: list[Input]) -> None:
    plan = run(archive).manifest.plan
    assert plan is not None
    for topic, partition in places(records):
        end = max(r.offset for r in records if (r.topic, r.partition) == (topic, partition)) + 1
        assert plan["topics"][NAMES[topic]]["partitions"][str(partition)] == {"end": end, "state": "active"}


def test_a_cut_by_time_is_at_the_first_record_of_that_timestamp_or_later(
    archive: Path, records: list[Input], tmp_path: Path
) -> None:
    cut_ms = sorted(r.timestamp_ms for r in records)[len(records) // 2]
    offsets: dict[str, dict[str, int]] = {}
    for topic, partition in places(records):
        mine = [r for r in records if (r.topic, r.partition) == (topic, partition)]
        cut = min((r.offset for r in mine if r.timestamp_ms >= cut_ms), default=len(mine))
        offsets.setdefault(NAMES[topic], {})[str(partition)] = cut
    (tmp_path / "offsets.json").write_text(json.dumps(offsets))
    by_time = run(archive, "time", as_of=f"{iso(cut_ms)}")
    by_offsets = run(archive, "offsets", as_of=str(tmp_path / "offsets.json"))
    assert by_time.manifest.plan == by_offsets.manifest.plan
    assert by_time.manifest.fingerprint == by_offsets.manifest.fingerprint != run(archive).manifest.fingerprint


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def test_an_initial_high_makes_late_what_the_whole_log_makes_late(archive: Path) -> None:
    whole = run(archive, "whole")
    high = whole.manifest.watermark - 20 * 60_000
    for partition in (0, 1):
        first = files(archive, WALLET, partition)[0]
        start = int(first.stem.partition("-")[2]) + 1
        first.unlink()
        (archive / WALLET / str(partition) / NOTE).write_bytes(RangeNote(start, -1, high, "").encode())
    rest = run(archive, "rest")
    assert rest.manifest.watermark == whole.manifest.watermark
    assert rest.manifest.counts["late"] > whole.manifest.counts.get("late", 0)


def remove_first(archive: Path) -> str:
    files(archive)[0].unlink()
    return f"{WALLET}, partition 0"


def remove_middle(archive: Path) -> str:
    files(archive)[1].unlink()
    return files(archive)[1].name


def remove_partition(archive: Path) -> str:
    for path in files(archive, WALLET, 0):
        path.unlink()
    (archive / WALLET / "0").rmdir()
    return f"{WALLET}/0"


def remove_topic(archive: Path) -> str:
    (archive / "user-events").rename(archive / "other-events")
    return "user-events"


def overlap(archive: Path) -> str:
    path = files(archive)[1]
    first, _, last = path.stem.partition("-")
    copy = path.with_name(f"{int(first) + 5}-{int(last) + 5}{path.suffix}")
    copy.write_bytes(path.read_bytes())
    return copy.name


def twice(archive: Path) -> str:
    path = files(archive)[1]
    copy = path.with_suffix(".jsonl")
    write_file(copy, read_file(path))
    return copy.name


def cut_off(archive: Path) -> str:
    path = files(archive)[2]
    path.write_bytes(path.read_bytes()[:-40])
    return path.name


def other_offsets(archive: Path) -> str:
    path = files(archive)[1]
    write_file(path, [record._replace(offset=record.offset + 1) for record in read_file(path)])
    return path.name


def out_of_order(archive: Path) -> str:
    path = files(archive)[1]
    write_file(path, reversed(list(read_file(path))))
    return path.name


def no_name(archive: Path) -> str:
    path = files(archive)[-1]
    path.rename(path.with_name("last.avro"))
    return "last.avro"


def half_without_offsets(archive: Path) -> str:
    path = files(archive)[1]
    write_file(path, [record._replace(offset=-1) for record in read_file(path)])
    return WALLET


def a_stranger(archive: Path) -> str:
    path = files(archive)[0].with_name("notes.csv")
    path.write_text("?")
    return "notes.csv"


def not_listed(archive: Path) -> str:
    """The note lists all files but the last, as after a crash of `archive`."""
    folder = archive / WALLET / "0"
    note = RangeNote(0, -1, None, "", {path.name: {} for path in files(archive)[:-1]})
    (folder / NOTE).write_bytes(note.encode())
    return files(archive)[-1].name


def listed_and_missing(archive: Path) -> str:
    folder = archive / WALLET / "0"
    last = files(archive)[-1]
    note = RangeNote(0, -1, None, "", {path.name: {} for path in files(archive)})
    (folder / NOTE).write_bytes(note.encode())
    last.unlink()
    return last.name


def other_content(archive: Path) -> str:
    folder = archive / WALLET / "0"
    first = files(archive)[0].name
    note = RangeNote(0, -1, None, "", {p.name: {"sha256": "0" * 64} if p.name == first else {} for p in files(archive)})
    (folder / NOTE).write_bytes(note.encode())
    return first


def fewer_records(archive: Path) -> str:
    folder = archive / WALLET / "0"
    first = files(archive)[0]
    notes: dict[str, dict[str, Any]] = {path.name: {} for path in files(archive)}
    notes[first.name] = {"records": 20}
    write_file(first, list(read_file(first))[:-1])
    (folder / NOTE).write_bytes(RangeNote(0, -1, None, "", notes).encode())
    return first.name


def not_finished(archive: Path) -> str:
    (archive / WALLET / "0" / NOTE).write_bytes(RangeNote(0, 10**6, None, "").encode())
    return WALLET


def no_note(archive: Path) -> str:
    (archive / WALLET / "0" / NOTE).write_text("{")
    return NOTE


DAMAGES = [
    remove_first, remove_middle, remove_partition, remove_topic, overlap, twice, cut_off, other_offsets, out_of_order,
    no_name, half_without_offsets, a_stranger, not_listed, listed_and_missing, other_content, fewer_records,
    not_finished, no_note,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_an_archive_that_is_not_whole_is_refused_by_name_and_nothing_is_written(
    archive: Path, damage: Callable[[Path], str]
) -> None:
    named = damage(archive)
    with pytest.raises(ArchiveError) as refused:
        run(archive)
    assert named in str(refused.value)
    assert [path.name for path in archive.parent.iterdir()] == ["archive"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"as_of": "yesterday"},
        {"as_of": "2026-01-01T00:00:00"},
        {"sources": []},
        {"sources": ["kafka"]},
        {"key_groups": 0},
        {"partitions": 5},
        {"max_records_per_chunk": 0},
        {"ends": {("wallet-events", 0): 10**9}},
        {"ends": {("wallet-events", 7): 1}},
    ],
)
def test_what_does_not_fit_together_is_refused_and_nothing_is_written(archive: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        bootstrap(RULES, archive.parent / "savepoint", **{"sources": [str(archive)], **wrong})
    assert [path.name for path in archive.parent.iterdir()] == ["archive"]


def test_a_time_needs_timestamps(tmp_path: Path, records: list[Input]) -> None:
    write_archive(tmp_path / "archive", records, places(records), with_offsets=False)
    with pytest.raises(ConfigError, match="timestamps"):
        run(tmp_path / "archive", as_of="2026-01-01T00:00:00Z")


class Stopped(Exception):
    pass


def test_a_bootstrap_that_was_stopped_goes_on_and_gives_the_same(archive: Path) -> None:
    want = run(archive, "whole")
    told: list[Progress] = []

    def stop(progress: Progress) -> None:
        told.append(progress)
        if progress.phase == READING and progress.done > progress.total // 3:
            raise Stopped

    with pytest.raises(Stopped):
        run(archive, tell=stop, source_tasks=3)
    already_done = told[-1].done
    told.clear()
    with pytest.raises(SetupError, match="key_groups"):
        run(archive, key_groups=3)
    file = files(archive)[0]
    there, times = file.read_bytes(), file.stat()
    file.write_bytes(there + b"\x00")
    with pytest.raises(ArchiveError, match=f"{file.name}: .* found a changed one"):
        run(archive)
    file.write_bytes(there)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    made = run(archive, tell=told.append, source_tasks=3)
    assert next(p.done for p in told if p.phase == READING) == already_done
    assert made.manifest.fingerprint == want.manifest.fingerprint
    assert sorted(path.name for path in archive.parent.iterdir()) == ["archive", "savepoint", "whole"]


def test_chunks_do_not_matter_nor_do_files(archive: Path, records: list[Input]) -> None:
    write_archive(archive.parent / "files", records, places(records), "parquet", per_file=33)
    prints = {run(archive, f"s{n}", max_records_per_chunk=n).manifest.fingerprint for n in (13, 100, 10_000)}
    assert prints == {run(archive.parent / "files").manifest.fingerprint}


def test_two_archives_are_read_as_one(archive: Path) -> None:
    later = archive.parent / "later"
    for topic in ("wallet-events", "user-events", "user-session-events"):
        for partition in (0, 1):
            (later / topic / str(partition)).mkdir(parents=True)
    want = run(archive, "one")
    moved = files(archive)[3:]
    for path in moved:
        path.rename(later / WALLET / "0" / path.name)
    made = bootstrap(RULES, archive.parent / "two", sources=[str(later), str(archive)])
    assert moved
    assert made.manifest.fingerprint == want.manifest.fingerprint


def test_a_savepoint_that_is_there_is_not_replaced(archive: Path) -> None:
    run(archive)
    with pytest.raises(MoneystateError, match="savepoint"):
        run(archive)
