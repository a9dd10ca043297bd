"""One load: makes a table's topic equal to its source.

The steps, and what a crash after each leaves:

1. *opened*: other writers are fenced, and what they left open has ended. Nothing of this load is anywhere.
2. *caught up*: the digests know the topic up to its end, also the last load of this process, which readers may not see
   at once. It cannot change any more, but by this process.
3. *compared*: each row is checked and compared, its differences are on local disk, and the source says that it is still
   the same. The next load removes these files.
4. *written*: the differences and `TableLoaded` are in one Kafka transaction that is open. The next load ends it, or the
   broker after a while. Until then readers wait before it.
5. *committed*: readers see the load. The next one reads its records into the digests, as step 2 does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

from moneystate.errors import SourceError
from moneystate.kafka.failpoints import failpoint
from moneystate.log import get_log
from moneystate.records.platform_records import TableLoaded
from moneystate.tables.comparison import Comparison, Counts, differences
from moneystate.tables.following import Follower, Progress
from moneystate.tables.guard import check_deletions
from moneystate.tables.pending import Pending, pending
from moneystate.tables.records import RecordMaker
from moneystate.tables.rows import Problem
from moneystate.tables.source import CHUNK, Opened, RowSource
from moneystate.tables.writer import TableWriter

_log = get_log(__name__)

SHOWN: Final = 20  # problems, and keys of a dry run

READ, CHECKED, WRITTEN = "records of the topic read", "rows checked", "changes written"  # phases


class OnError(StrEnum):
    """Describes what happens to a row that cannot be loaded."""

    fail = "fail"  # nothing is loaded
    skip = "skip"  # the row is left out; the topic keeps what it has of it


@dataclass(frozen=True)
class Choices:
    on_error: OnError = OnError.fail
    allow_deletes: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Load:
    """Holds what a load did, or would do."""

    counts: Counts
    skipped: int  # rows that could not be loaded
    source: str
    loaded_at_ms: int
    changes: list[str] = field(default_factory=list)  # of a dry run, the first ones


class Ended(Exception):
    """The load was told to end."""


@dataclass(frozen=True)
class Surroundings:
    """`now_ms`: the time of the wall clock; `check`: called between chunks, raises Ended; `progress`: gets a phase, how
    much of it is done, and of how much (0: not known)."""

    now_ms: Callable[[], int]
    check: Callable[[], object]
    progress: Callable[[str, int, int], object]


class Loader:
    """Loads one table, again and again."""

    def __init__(
        self, source: RowSource, make: RecordMaker, follower: Follower, writer: TableWriter, work: Path,
        choices: Choices, surroundings: Surroundings,
    ) -> None:  # fmt: skip
        self.source = source
        self.topic = follower.topic
        self._make = make
        self._follower = follower
        self._writer = writer
        self._work = work
        self._choices = choices
        self._around = surroundings

    def load(self) -> Load:
        """Raises SourceError where the source cannot be loaded, InstanceError where another writer has taken over,
        BrokerError, and Ended. Then the topic is as it was."""
        if not self._choices.dry_run:
            self._writer.open()
            failpoint("opened", 0)
        self._follower.catch_up(self._progress(READ), waits=not self._choices.dry_run)
        failpoint("caught up", 0)
        with pending(self._work) as rows:
            with self.source.open() as opened:
                counts, skipped = self._compare(opened, rows)
                opened.check_unchanged()
                identity = opened.identity
            if not self._choices.allow_deletes:
                check_deletions(self.source.where, counts.rows, counts.known, counts.deleted)
            failpoint("compared", 0)
            load = Load(counts, skipped, identity, self._around.now_ms())
            if self._choices.dry_run:
                return replace(load, changes=self._shown(rows))
            self._write(load, rows)
            return load

    def close(self) -> None:
        self._follower.close()
        self._follower.digests.close()

    def _compare(self, opened: Opened, rows: Pending) -> tuple[Counts, int]:
        comparison = Comparison(self._follower.digests, rows, self.source.unit)
        show, reads, done = self._progress(CHECKED), opened.rows(), 0
        problems: list[Problem] = []
        count = 0
        while chunk := list(islice(reads, CHUNK)):
            wrong = comparison.add(list(map(self._make, chunk)))
            count += len(wrong)
            problems += wrong[: SHOWN - len(problems)]
            done += len(chunk)
            show(done, 0)
        self._report(problems, count)
        if count and self._choices.on_error is OnError.fail:
            first = problems[0]
            raise SourceError(
                f"{self.source.where}, {self.source.unit} {first.number}: expected a row that can be loaded, but "
                f"{first.why}; {count:,} {'problem' if count == 1 else 'problems'} in all.",
                "correct the source; --on-error skip leaves such rows as the topic has them.",
            )
        counts = comparison.finish()
        if counts.held_back:
            _log.warning(
                "no row is deleted, as a row was left out whose key is not known", deletions_held_back=counts.held_back
            )
        return counts, count

    def _report(self, problems: list[Problem], count: int) -> None:
        for problem in problems:
            _log.warning("a row cannot be loaded", **{self.source.unit: problem.number}, why=problem.why)
        if count > len(problems):
            _log.warning("more rows cannot be loaded", rows=count - len(problems))

    def _write(self, load: Load, rows: Pending) -> None:
        counts = load.counts
        show, total = self._progress(WRITTEN), counts.changed + counts.deleted
        self._writer.begin()
        try:
            for n, (key, value) in enumerate(differences(rows), 1):
                if value is None:
                    self._writer.delete(key)
                else:
                    self._writer.put(key, value)
                if n % CHUNK == 0:
                    show(n, total)
            self._writer.loaded(
                TableLoaded(counts.rows, counts.changed, counts.deleted, load.source, load.loaded_at_ms)
            )
            failpoint("written", 0)
        except BaseException:
            self._writer.abort()
            raise
        self._writer.commit()
        failpoint("committed", 0)

    def _progress(self, phase: str) -> Progress:
        def show(done: int, total: int) -> None:
            self._around.check()
            self._around.progress(phase, done, total)

        return show

    def _shown(self, rows: Pending) -> list[str]:
        """The first differences: `+` new, `~` changed, `-` deleted."""
        return [self._line(key, value) for key, value in islice(differences(rows), SHOWN)]

    def _line(self, key: bytes, value: bytes | None) -> str:
        name = key.decode("utf-8", "backslashreplace")  # others may have written any key
        if value is None:
            return f"- {name}"
        return f"{'+' if self._follower.digests.of([key])[0] is None else '~'} {name} {value.decode()}"
