"""Inspects an archive file before the bootstrap starts: is it complete, in order, and which event times does it
have?
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from moneystate.bootstrap.files import NO_OFFSET, NO_TIMESTAMP, ArchivedRecord, read_file
from moneystate.bootstrap.layout import ArchiveFile
from moneystate.engine.deadletter import Letter
from moneystate.engine.processor import Rejected
from moneystate.engine.reading import EventTimes
from moneystate.errors import ArchiveError, ConfigError, StepError

POINT_EVERY = 2_000  # the event time is read once in so many records
ARCHIVE_ADVICE = "restore the file."


@dataclass
class FileFacts:
    """Holds what the inspection of an archive file found."""

    records: int = 0
    has_offsets: bool = False  # its records have offsets
    # First record with a timestamp at or after the requested time: its offset, or its number if it has none.
    first_at: int | None = None
    # Offset (or number) and event time (ms) of some records.
    points: list[tuple[int, int]] = field(default_factory=list)


class Inspector:
    """Finds where times are in files."""

    def __init__(self, times: EventTimes, at_ms: int | None) -> None:
        self.times = times
        self.at_ms = at_ms  # the time to find; None: none

    def inspect(self, file: ArchiveFile, topic: int) -> FileFacts:
        """Reads the whole file. Raises ArchiveError if it is incomplete, out of order, or not what its name and note
        say."""
        path = Path(file.path)
        self._check_sum(path, file)
        facts = FileFacts()
        self._read(path, file, topic, read_file(path), facts)
        if file.records is not None and file.records != facts.records:
            raise ArchiveError(
                f"{path}: expected {file.records} records as the note says, found {facts.records}.", ARCHIVE_ADVICE
            )
        return facts

    def _check_sum(self, path: Path, file: ArchiveFile) -> None:
        if file.sha256 is None:
            return
        with path.open("rb") as f:
            actual = hashlib.file_digest(f, "sha256").hexdigest()
        if actual != file.sha256:
            raise ArchiveError(
                f"{path}: expected the content that was archived, found another SHA-256.", ARCHIVE_ADVICE
            )

    def _read(
        self, path: Path, file: ArchiveFile, topic: int, records: Iterable[ArchivedRecord], facts: FileFacts
    ) -> None:
        before = -1
        looking = True
        needs_headers = self.times.decoder.needs_headers(topic)
        for number, record in enumerate(records):
            has_offset = record.offset != NO_OFFSET
            if number == 0:
                facts.has_offsets = has_offset
            elif has_offset != facts.has_offsets:
                raise ArchiveError(f"{path}: expected offsets in all records or in none, found both.", ARCHIVE_ADVICE)
            if has_offset:
                self._check_offset(path, file, before, record.offset)
                before = record.offset
            if needs_headers and not record.has_headers:
                raise ArchiveError(
                    f"{path}: expected records with headers, which this input needs, found record {number} without.",
                    "archive the topic with them: with moneystate archive, or with Spark's source and includeHeaders.",
                )
            place = record.offset if has_offset else number
            if self.at_ms is not None and facts.first_at is None:
                self._locate_time(path, record, place, facts)
            looking = looking or number % POINT_EVERY == 0
            if looking and (event_time_ms := self._event_time(topic, record)) is not None:
                facts.points.append((place, event_time_ms))
                looking = False
            facts.records = number + 1

    def _check_offset(self, path: Path, file: ArchiveFile, before: int, offset: int) -> None:
        if file.first is None or file.last is None:
            raise ArchiveError(
                f"{path}: expected the name FIRST-LAST, as its records have offsets.",
                "name it by the offsets that it holds.",
            )
        if not file.first <= offset <= file.last:
            raise ArchiveError(
                f"{path}: expected offsets {file.first} to {file.last} as its name says, found {offset}.",
                ARCHIVE_ADVICE,
            )
        if offset <= before:
            raise ArchiveError(f"{path}: expected rising offsets, found {offset} after {before}.", ARCHIVE_ADVICE)

    def _locate_time(self, path: Path, record: ArchivedRecord, place: int, facts: FileFacts) -> None:
        assert self.at_ms is not None
        if record.timestamp_ms == NO_TIMESTAMP:
            raise ConfigError(
                f"--as-of: expected timestamps in the archive, {path} has records without.", "give offsets or end."
            )
        if record.timestamp_ms >= self.at_ms:
            facts.first_at = place

    def _event_time(self, topic: int, record: ArchivedRecord) -> int | None:
        letter = Letter("", 0, record.offset, record.timestamp_ms, record.key, record.value, record.headers)
        try:
            return self.times.event_time(topic, letter)
        except (Rejected, StepError):  # the inspection decides nothing; the first phase does
            return None
