"""Truncations of a database's table, whose change events a table of a service is read from.

A truncation is one record, in one partition, and removes the rows of all keys. So it is kept under a key of its own,
and whoever reads a row leaves out the versions that a truncation has removed. Which ones those are, the database's log
decides: in PostgreSQL a transaction often empties a table and fills it again, and partitions do not keep that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

# The key of the entry with the truncations. PostgreSQL has no text with this character.
TRUNCATED: Final = b"\0truncated"


class Positioned(Protocol):
    """A version of a row, with its position in the database's log; 0: it is not known."""

    @property
    def written(self) -> int: ...

    @property
    def position(self) -> int: ...


class Truncation(NamedTuple):
    """`written`: its order time, from which rows are gone."""

    written: int
    position: int


def is_gone(version: Positioned, truncations: Sequence[Truncation], at_ms: int) -> bool:
    """Whether a version does not hold at a time, because the table was truncated after the row was written."""
    return any(t.written <= at_ms and removes(t, version) for t in truncations)


def removes(truncation: Truncation, version: Positioned) -> bool:
    """Compares the positions. Where one of them is not known, it compares the times: rows of the same millisecond
    stay."""
    if truncation.position and version.position:
        return version.position < truncation.position
    return version.written < truncation.written


def removed_with(version: Positioned, later: Positioned) -> bool:
    """Whether each truncation that removes `later` also removes `version`. A connector that was killed sends an old row
    again after a newer one, and a truncation between the two in the database's log removes only the old one."""
    if version.written > later.written or bool(version.position) != bool(later.position):
        return False
    return version.position <= later.position


def still_needed(truncations: Iterable[Truncation], horizon_ms: int) -> list[Truncation]:
    """Returns those that can make a difference. Of those that have held for all steps since `horizon_ms`, the last ones
    remove what the others remove: by position, by time, and by time of those without a position."""
    held: list[Truncation] = []
    rest: list[Truncation] = []
    for truncation in truncations:
        (held if truncation.written <= horizon_ms else rest).append(truncation)
    if held:
        by_time = [truncation for truncation in held if not truncation.position]
        last = {max(held), max(held, key=_by_position), *([max(by_time)] if by_time else [])}
        rest = [*sorted(last), *rest]
    return rest


def _by_position(truncation: Truncation) -> tuple[int, int]:
    return truncation.position, truncation.written


def truncations_in(versions: Iterable[Any]) -> list[Truncation]:
    """Makes the truncations of the versions in the entry of `TRUNCATED`."""
    return [Truncation(version.written, version.position) for version in versions]
