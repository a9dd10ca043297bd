"""The folder layout of an archive, and the checks that need not open its files.

    DIR/<topic without prefix>/<partition>/<first offset>-<last offset>.avro | .parquet | .jsonl
    DIR/<topic without prefix>/<partition>/_range.json      the note of `moneystate archive`; optional

A file's name gives its range of offsets. The file is complete: missing offsets of the range never had a readable record
(compacted, aborted, transaction markers). Files whose records have no offsets may have any name. They are read in the
order of their names, with numbers compared as numbers, and their records are counted from 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from moneystate.bootstrap.files import FORMATS, format_of
from moneystate.engine.inputs import Inputs
from moneystate.engine.json_object import read_object
from moneystate.engine.plan import TopicPartition
from moneystate.errors import ArchiveError

NOTE = "_range.json"
NOTE_VERSION = 1
_NAME = re.compile(r"(\d+)-(\d+)")


@dataclass
class RangeNote:
    """Holds what an archive records about one partition: offsets `start` to before `end`."""

    start: int
    end: int
    initial_high: int | None  # highest event time (ms) before `start`; None: there is none
    topic_id: str
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # number of records and SHA-256, by file name
    version: int = NOTE_VERSION

    @property
    def done(self) -> int:
        """Offsets before this one are in the files."""
        return self.start + sum(int(about["offsets"]) for about in self.files.values())

    def encode(self) -> bytes:
        fields = asdict(self)
        fields["initialHigh"], fields["topicId"] = fields.pop("initial_high"), fields.pop("topic_id")
        return json.dumps(fields, sort_keys=True, indent=1).encode()


def read_note(folder: Path) -> RangeNote | None:
    """Reads a note; None: there is none. Raises ArchiveError for an invalid note."""
    path = folder / NOTE
    try:
        return decode_note(path.read_bytes(), str(path)) if path.exists() else None
    except OSError as e:
        raise damaged_note(str(path), e) from None


def decode_note(content: bytes, name: str) -> RangeNote:
    """Raises ArchiveError, which calls the note `name`."""
    try:
        fields = read_object(content.decode())
        if fields.get("version", NOTE_VERSION) > NOTE_VERSION:
            raise ValueError(f"version {fields['version']} is from a newer program")
        return RangeNote(
            _whole(fields.get("start", 0), "start"),
            _whole(fields.get("end", -1), "end"),
            None if fields.get("initialHigh") is None else _whole(fields["initialHigh"], "initialHigh"),
            str(fields.get("topicId", "")),
            {name: _about(name, about) for name, about in dict(fields.get("files", {})).items()},
        )
    except (ValueError, TypeError) as e:
        raise damaged_note(name, e) from None


def damaged_note(name: str, e: Exception) -> ArchiveError:
    return ArchiveError(f"{name}: expected the note of an archived range, but {e}.", "restore or remove it.")


def _whole(value: Any, name: str) -> int:
    if type(value) is not int:
        raise TypeError(f"expected a whole number as {name}, found {type(value).__name__}")
    return value


def _about(name: str, about: Any) -> dict[str, Any]:
    """Returns what a note says about a file."""
    if type(about) is not dict or type(about.get("sha256", "")) is not str:
        raise TypeError(f"expected the records and the SHA-256 of {name}")
    if about.get("records") is not None:
        _whole(about["records"], f"records of {name}")
    return about


def first_offset(name: str) -> int | None:
    """Reads the first offset from the name of a file that `moneystate archive` writes; None: it has another name."""
    path = Path(name)
    offsets = _NAME.fullmatch(path.stem)
    return int(offsets[1]) if offsets is not None and format_of(path) is not None else None


@dataclass(frozen=True)
class ArchiveFile:
    """A file of an archive."""

    path: str
    first: int | None = None  # by its name; None: the name does not say
    last: int | None = None  # by its name; None: the name does not say
    records: int | None = None  # by the note
    sha256: str | None = None  # by the note


@dataclass
class ArchivedPartition:
    """The files of one partition, in one or more archives, in order. `named`: their names say which offsets they
    hold."""

    topic: str
    partition: int
    files: list[ArchiveFile]
    notes: list[RangeNote]

    @property
    def named(self) -> bool:
        return all(f.first is not None for f in self.files)

    def first_note(self) -> RangeNote | None:
        return min(self.notes, key=lambda n: n.start, default=None)


def archived_topics(folders: list[Path], inputs: Inputs) -> list[str]:
    """The topics of the inputs: for a pattern and for replies, those that have a folder in one of the archives."""
    there = {entry.name for folder in folders if folder.is_dir() for entry in folder.iterdir() if entry.is_dir()}
    return [*inputs.named_among(there), *inputs.matching(there)]


def find_archives(folders: list[Path], topics: list[str]) -> dict[TopicPartition, ArchivedPartition]:
    """All partitions of `topics` in the archives. Raises ArchiveError if names and notes show that something is
    missing, overlaps or does not belong to an archive."""
    archived: dict[TopicPartition, ArchivedPartition] = {}
    for topic in topics:
        places = [folder / topic for folder in folders if (folder / topic).is_dir()]
        if not places:
            raise ArchiveError(
                f"{folders[0] / topic}: expected a folder for each topic, found none.",
                "give the archive's folder; make an empty one for a topic that never had a record.",
            )
        for place in places:
            for number, folder in _partitions(place):
                partition = archived.setdefault((topic, number), ArchivedPartition(topic, number, [], []))
                _add(partition, folder)
        _check_numbers(places[0], [p for t, p in archived if t == topic])
    for partition in archived.values():
        _sort(partition)
    return archived


def _partitions(place: Path) -> Iterable[tuple[int, Path]]:
    for entry in sorted(place.iterdir()):
        if entry.name.startswith(("_", ".")):
            continue
        if not entry.is_dir() or not entry.name.isdecimal():
            raise ArchiveError(
                f"{entry}: expected a partition's folder, named by its number.", "move it out of the archive."
            )
        yield int(entry.name), entry


def _check_numbers(place: Path, numbers: list[int]) -> None:
    missing = sorted(set(range(max(numbers, default=-1) + 1)) - set(numbers))
    if missing:
        raise ArchiveError(
            f"{place / str(missing[0])}: expected a folder for each partition up to {max(numbers)}, found none.",
            "restore it; an empty folder stands for a partition that never had a record.",
        )


def _add(partition: ArchivedPartition, folder: Path) -> None:
    note = read_note(folder)
    listed = dict(note.files) if note is not None else {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(("_", ".")) or path.suffix == ".tmp":
            continue
        if format_of(path) is None:
            raise ArchiveError(
                f"{path}: expected an archive file ({', '.join(FORMATS)}).", "move it out of the archive."
            )
        name = _NAME.fullmatch(path.stem)
        first, last = (int(name[1]), int(name[2])) if name else (None, None)
        about = listed.pop(path.name, None) if note is not None and note.files else {}
        if about is None:
            raise ArchiveError(
                f"{path}: expected a file that {NOTE} lists, found another one.",
                "finish the archive: the same command again.",
            )
        partition.files.append(ArchiveFile(str(path), first, last, about.get("records"), about.get("sha256")))
    if listed:
        raise ArchiveError(
            f"{folder / min(listed)}: expected the file that {NOTE} lists, found none.", "restore the file."
        )
    if note is not None:
        partition.notes.append(note)


def _sort(partition: ArchivedPartition) -> None:
    if not partition.named:
        partition.files.sort(key=lambda f: _natural(Path(f.path).name))
        return
    partition.files.sort(key=lambda f: (f.first or 0, f.last or 0))
    before: ArchiveFile | None = None
    for file in partition.files:
        assert file.first is not None
        assert file.last is not None
        if before is not None and before.last is not None:
            if file.first <= before.last:
                raise ArchiveError(
                    f"{file.path}: expected offsets from {before.last + 1} on, found an overlap with {before.path}.",
                    "keep one of the two.",
                )
            if file.first > before.last + 1:
                raise ArchiveError(
                    f"{file.path}: expected offsets from {before.last + 1} on, found none before {file.first}.",
                    "restore the missing file.",
                )
        before = file
    _check_end(partition)


def _check_end(partition: ArchivedPartition) -> None:
    for note in partition.notes:
        have = max(((f.last or 0) + 1 for f in partition.files), default=note.start)
        if note.end > have:
            raise ArchiveError(
                f"{partition.topic}, partition {partition.partition}: expected files up to offset {note.end - 1} as "
                f"in {NOTE}, found them up to {have - 1}.",
                "finish the archive: the same command again.",
            )


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key for names: text as text, numbers as numbers."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]
