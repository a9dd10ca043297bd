"""What an export does with one key group, wherever it runs."""

from __future__ import annotations

import marshal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from moneystate.engine import clock as clocks
from moneystate.errors import SavepointError
from moneystate.ports.state import StateModel
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.format import write_state
from moneystate.savepoint.manifest import FileInfo
from moneystate.savepoint.rescale import largest_bound_ms, rescaled, routed

SUMMARY = b""  # no entry has this key
Pairs = list[tuple[bytes, bytes]]
Routed = tuple[int, bytes, bytes]  # new key group, key and value


class Group(NamedTuple):
    """A summary of a written key group."""

    number: int
    file: FileInfo
    fingerprint: Fingerprint
    watermark: int
    counts: dict[str, int]
    expected: Fingerprint | None  # of the state that was read, if this group knows it

    def pack(self) -> bytes:
        keys_buffer = (self.fingerprint.keys, self.fingerprint.buffer)
        expected = None if self.expected is None else (self.expected.keys, self.expected.buffer)
        return marshal.dumps((self.number, astuple(self.file), keys_buffer, self.watermark, self.counts, expected))


def unpack(packed: bytes) -> Group:
    number, file, fingerprint, watermark, counts, expected = marshal.loads(packed)
    read = None if expected is None else Fingerprint(*expected)
    return Group(number, FileInfo(*file), Fingerprint(*fingerprint), watermark, counts, read)


@dataclass(frozen=True)
class GroupWriter:
    """Writes the state files of key groups to `folder`. `old`: the number of key groups that are read; `new`: of those
    that are written."""

    state: StateModel
    folder: Path
    rules: dict[str, Any]
    old: int
    new: int

    def write(self, number: int, entries: Pairs) -> Group:
        """`entries`: all of the key group, sorted."""
        clock = clocks.decode(next(value for key, value in entries if key == clocks.KEY))
        fingerprint = of_group(number, entries, self.state, self.rules)
        file = write_state(self.folder, number, entries)
        return Group(number, file, fingerprint, clock.watermark, clock.counts, expected=None)

    def route(self, group: int, entries: Pairs) -> Iterator[Routed]:
        """The new key groups of an old one's entries, which are sorted. The summaries of all old groups go to new group
        0, which has the counts of the whole."""
        clock = clocks.decode(next(value for key, value in entries if key == clocks.KEY))
        fingerprint = of_group(group, entries, self.state, self.rules)
        yield 0, SUMMARY, marshal.dumps((fingerprint.keys, fingerprint.buffer, clock.counts))
        yield from routed(self.state, group, self.old, self.new, entries)

    def merge(self, number: int, rows: Iterable[tuple[int, bytes, bytes]]) -> Group:
        """Writes a new key group. `rows`: old key group, key and value, sorted."""
        by_old: defaultdict[int, Pairs] = defaultdict(list)
        counts: Counter[str] = Counter()
        expected = Fingerprint() if number == 0 else None
        for source, key, value in rows:
            if key != SUMMARY:
                by_old[source].append((key, value))
                continue
            keys, buffer, its_counts = marshal.loads(value)
            counts.update(its_counts)
            expected = (expected or Fingerprint()) + Fingerprint(keys, buffer)
        bound_ms = largest_bound_ms(self.rules)
        entries = rescaled(self.state, number, self.new, by_old.__getitem__, self.old, bound_ms, dict(counts))
        return self.write(number, entries)._replace(expected=expected)

    def check(self, groups: list[Group]) -> None:
        """Raises SavepointError if merged groups do not have the state that was read. `groups`: all, sorted."""
        total = sum([group.fingerprint for group in groups], Fingerprint())
        if total != groups[0].expected:
            raise SavepointError(
                f"{self.folder}: expected the fingerprint {groups[0].expected} of the checkpoint's state, found "
                f"{total} in {self.new} key groups.",
                "report this, and keep the checkpoint.",
            )
