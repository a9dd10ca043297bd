"""Merges creations, patches and deletions of one entity, whatever order they arrive in.

The entity is what its bodies make, applied as JSON Merge Patches (RFC 7386) in the order of their stamps, without those
up to the newest deletion. What they make at a path depends on two of the writes there alone: the newest that set a
value or null (`value`), and the newest that had an object (`object`). Where `object` is newer, an object stands there,
made of what was written below it after `value`. Else the value stands there, or nothing for null, and all that was
written below is over. So two stamps for each path are enough, and a body is needed once, when it arrives.

    document    what the bodies make
    stamps      in order, those that a mark names
    marks       by name, what wrote a member: [number of `value`'s stamp], or where an object stands
                [number of `value`'s, number of `object`'s, marks of its members]

A stamp that is older than all to come can be forgotten. Its number is OLDEST, as that of one that there never was. A
member without a mark is as one with [OLDEST]. The same writes give the same `Merge` in any order.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

OLDEST: Final = -1
VALUE, OBJECT, MEMBERS = 0, 1, 2  # of a mark
Kind: TypeAlias = Literal["created", "patched", "deleted"]
Status: TypeAlias = Literal["UNKNOWN", "ACTIVE", "DELETED"]
Marks: TypeAlias = dict[str, list[Any]]
Stamp: TypeAlias = (
    str  # sorts as writes do: by time, then events by their ids, then commands by their places in the log
)


def event_stamp(time_ms: int, event_id: str) -> Stamp:
    return f"{_time(time_ms)}:{event_id}"


def command_stamp(time_ms: int, partition: int, offset: int, command_id: str) -> Stamp:
    return f"{_time(time_ms)};{partition:08x}{offset:016x}:{command_id}"


def cause_and_time(stamp: Stamp) -> tuple[str, int]:
    place, _, cause = stamp.partition(":")
    return cause, int(place[:16], 16) - (1 << 63)


def _time(time_ms: int) -> str:
    return f"{time_ms + (1 << 63):016x}"  # also of times before 1970


@dataclass
class Merge:
    """`created`, `deleted`: stamps of the newest creation and deletion."""

    document: dict[str, Any] = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)
    stamps: list[Stamp] = field(default_factory=list)
    created: Stamp | None = None
    deleted: Stamp | None = None

    def write(self, stamp: Stamp, kind: Kind, body: dict[str, Any]) -> None:
        """`stamp` is newer than those that were forgotten, and no other write has it."""
        if kind == "deleted":
            self._delete(stamp)
            return
        if kind == "created" and (self.created is None or stamp > self.created):
            self.created = stamp
        if self.deleted is None or stamp > self.deleted:
            self._apply(stamp, body)

    @property
    def status(self) -> Status:
        if self.created is not None and (self.deleted is None or self.created > self.deleted):
            return "ACTIVE"
        return "UNKNOWN" if self.deleted is None else "DELETED"

    def forget(self, time_ms: int) -> None:
        """The stamps up to this time."""
        limit = bisect(self.stamps, _time(time_ms + 1))
        if limit:
            _renumber(self.marks, [*[OLDEST] * limit, *range(len(self.stamps) - limit), OLDEST])
            del self.stamps[:limit]

    def causes(self) -> Iterator[tuple[str, Stamp | None]]:
        """JSON Pointers (RFC 6901) of all values and empty objects of the document, and the stamps of what wrote them,
        None where that is forgotten."""
        for pointer, number in _leaves(self.document, self.marks, ""):
            yield pointer, None if number == OLDEST else self.stamps[number]

    def _delete(self, stamp: Stamp) -> None:
        if self.deleted is None or stamp > self.deleted:
            self.deleted = stamp
            _remove(self.document, self.marks, bisect(self.stamps, stamp))
            self._drop_unnamed()

    def _apply(self, stamp: Stamp, body: dict[str, Any]) -> None:
        number = bisect(self.stamps, stamp)
        if number < len(self.stamps):
            _renumber(self.marks, [*range(number), *range(number + 1, len(self.stamps) + 1), OLDEST])
        self.stamps.insert(number, stamp)
        _apply(self.document, self.marks, body, number)
        self._drop_unnamed()

    def _drop_unnamed(self) -> None:
        named = {OLDEST}
        _add_numbers(self.marks, named)
        if len(named) <= len(self.stamps):
            numbers = sorted(named)[1:]
            new = {old: new for new, old in enumerate(numbers)}
            _renumber(self.marks, [*[new.get(old, OLDEST) for old in range(len(self.stamps))], OLDEST])
            self.stamps = [self.stamps[old] for old in numbers]


def _apply(members: dict[str, Any], marks: Marks, body: dict[str, Any], number: int) -> None:
    for name, value in body.items():
        mark = marks.setdefault(name, [OLDEST])
        if number < mark[VALUE]:
            continue
        if type(value) is dict:
            if type(members.get(name)) is not dict:
                members[name] = {}
            if len(mark) == 1:
                mark += [OLDEST, {}]
            mark[OBJECT] = max(mark[OBJECT], number)
            _apply(members[name], mark[MEMBERS], value, number)
            continue
        mark[VALUE] = number
        if len(mark) > 1 and number < mark[OBJECT]:  # an object stays: what was written below it before goes
            _remove(members[name], mark[MEMBERS], number)
            continue
        del mark[OBJECT:]
        if value is None:
            members.pop(name, None)
        else:
            members[name] = value


def _remove(members: dict[str, Any], marks: Marks, limit: int) -> None:
    """Removes what was written by stamps of numbers below `limit`."""
    for name in {**members, **marks}:
        mark = marks.get(name, [OLDEST])
        if max(mark[:MEMBERS]) < limit:
            members.pop(name, None)
            marks.pop(name, None)
        elif len(mark) > 1:
            if mark[VALUE] < limit:
                mark[VALUE] = OLDEST
            _remove(members[name], mark[MEMBERS], limit)


def _add_numbers(marks: Marks, numbers: set[int]) -> None:
    for mark in marks.values():
        numbers.add(mark[VALUE])
        if len(mark) > 1:
            numbers.add(mark[OBJECT])
            _add_numbers(mark[MEMBERS], numbers)


def _renumber(marks: Marks, numbers: list[int]) -> None:
    """`numbers`: the new one of each; the last, which is at the index OLDEST, is OLDEST."""
    for name, mark in [*marks.items()]:
        mark[VALUE] = numbers[mark[VALUE]]
        if len(mark) > 1:
            mark[OBJECT] = numbers[mark[OBJECT]]
            _renumber(mark[MEMBERS], numbers)
        if mark[VALUE] == OLDEST and mark in ([OLDEST], [OLDEST, OLDEST, {}]):
            del marks[name]


def _leaves(members: dict[str, Any], marks: Marks, path: str) -> Iterator[tuple[str, int]]:
    for name, value in members.items():
        pointer = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        mark = marks.get(name, [OLDEST])
        if type(value) is dict and value:
            yield from _leaves(value, mark[MEMBERS] if len(mark) > 1 else {}, pointer)
        else:
            yield pointer, max(mark[:MEMBERS])
