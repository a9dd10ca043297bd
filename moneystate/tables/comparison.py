"""The first pass of a load: checks the rows of a source, and compares them with what the topic holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from moneystate.tables.digests import Digests
from moneystate.tables.pending import CHANGED, DELETED, LEFT, SAME, Entry, Pending
from moneystate.tables.records import Made, digest_of
from moneystate.tables.rows import Problem

BATCH: Final = 10_000


@dataclass(frozen=True)
class Counts:
    rows: int  # of the source, without those that cannot be loaded
    changed: int  # of them, those that are new or have other values than in the topic
    deleted: int  # rows of the topic that the source no longer has
    known: int  # rows of the topic before the load
    held_back: int = 0  # deletions that are left out, because the key of a row is not known


class Comparison:
    def __init__(self, digests: Digests, rows: Pending, unit: str) -> None:
        self._digests = digests
        self._rows = rows
        self._unit = unit
        self.key_unknown = False  # of a row: it may be any of the topic's

    def add(self, made: Sequence[Made]) -> list[Problem]:
        """Takes rows of the source, and says which of them cannot be loaded."""
        problems = [Problem(one.number, one.why) for one in made if one.key is None]
        self.key_unknown = self.key_unknown or bool(problems)
        keyed = [(one.key, one) for one in made if one.key is not None]
        keys = [key for key, _ in keyed]
        fresh: dict[bytes, Entry] = {}
        for (key, one), known, before in zip(keyed, self._digests.of(keys), self._rows.of(keys), strict=True):
            earlier = fresh.get(key, before)
            if earlier is not None:
                problems.append(Problem(one.number, f"the key of {self._unit} {earlier.number} again"))
                fresh[key] = Entry(LEFT, earlier.number)
            elif one.value is None:
                problems.append(Problem(one.number, one.why))
                fresh[key] = Entry(LEFT, one.number)
            elif known == digest_of(one.value):
                fresh[key] = Entry(SAME, one.number)
            else:
                fresh[key] = Entry(CHANGED, one.number, one.value)
        self._rows.put(fresh)
        return sorted(problems)

    def finish(self) -> Counts:
        """Runs after the last row: finds the deletions, and counts."""
        rows = changed = known = deleted = 0
        gone: dict[bytes, Entry] = {}
        for key, is_known, entry in _merged(self._digests.keys(), self._rows.entries()):
            known += is_known
            if entry is None:
                deleted += 1
                gone[key] = Entry(DELETED, 0)
                if len(gone) >= BATCH:
                    self._delete(gone)
            elif entry.state != LEFT:
                rows += 1
                changed += entry.state == CHANGED
        self._delete(gone)
        return Counts(rows, changed, 0, known, deleted) if self.key_unknown else Counts(rows, changed, deleted, known)

    def _delete(self, gone: dict[bytes, Entry]) -> None:
        if not self.key_unknown:
            self._rows.put(gone)
        gone.clear()


def differences(rows: Pending) -> Iterator[tuple[bytes, bytes | None]]:
    """Yields what a load writes: values by key, None for deletions."""
    for key, entry in rows.entries():
        if entry.state == CHANGED:
            yield key, entry.value
        elif entry.state == DELETED:
            yield key, None


def _merged(
    known: Iterator[bytes], entries: Iterator[tuple[bytes, Entry]]
) -> Iterator[tuple[bytes, bool, Entry | None]]:
    """All keys of both, sorted: whether the topic has a row, and the source's row."""
    mine, theirs = next(known, None), next(entries, None)
    while mine is not None or theirs is not None:
        if theirs is None or (mine is not None and mine < theirs[0]):
            assert mine is not None
            yield mine, True, None
            mine = next(known, None)
        else:
            key, entry = theirs
            yield key, mine == key, entry
            if mine == key:
                mine = next(known, None)
            theirs = next(entries, None)
