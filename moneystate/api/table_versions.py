"""The versions of one row of a table, and which of them holds.

A version holds from the later of two times: when it was written, and its `valid_from`. Versions are in the order of
these times; of two with the same, the one of the greater place is the later one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar


class AnyVersion(Protocol):
    @property
    def written(self) -> int: ...

    @property
    def valid_from(self) -> int: ...

    @property
    def row(self) -> Any: ...  # None: the row is removed


T = TypeVar("T", bound=AnyVersion)


def since(version: AnyVersion) -> int:
    """The time (ms) from which the version holds."""
    return version.written if version.written > version.valid_from else version.valid_from


def insert(versions: list[T], version: T) -> None:
    """Adds a version that has a greater place than all others."""
    holds_from = since(version)
    at = len(versions)
    while at and since(versions[at - 1]) > holds_from:
        at -= 1
    versions.insert(at, version)


def holding(versions: Sequence[T], time_ms: int) -> T | None:
    """The version that holds at a time; None: there was none yet."""
    for version in reversed(versions):
        if since(version) <= time_ms:
            return version
    return None


def known_of(versions: Sequence[T], time_ms: int, at_ms: int) -> T | None:
    """Returns, of the versions that were written by `time_ms`, the one with the greatest `valid_from` up to `at_ms`."""
    best: T | None = None
    for version in versions:
        if version.written <= time_ms and version.valid_from <= at_ms and _supersedes(version, best):
            best = version
    return best


def _supersedes(version: AnyVersion, other: AnyVersion | None) -> bool:
    """Whether `version` takes the place of `other`. Of two that are valid from the same time, the later one does. They
    differ in when they were written, or were written in the order of the versions."""
    if other is None or version.valid_from != other.valid_from:
        return other is None or version.valid_from > other.valid_from
    return version.written >= other.written


def needed(
    versions: list[T], now_ms: int, history_ms: int, removed_with: Callable[[T, T], bool] | None = None
) -> list[T]:
    """The versions that a step from `now_ms` on can get. `history_ms`: how far back `known_of` may look; 0: not at
    all. `removed_with(version, later)`: whether each truncation that removes `later` also removes `version`. If one
    can leave `version`, it holds again, so `later` does not replace it. None: there are no truncations."""
    replaced = _replaced(versions[: _current(versions, now_ms) + 1], removed_with)
    if history_ms and replaced:
        horizon_ms = now_ms - history_ms
        known = [v for v in versions if v.written <= now_ms and v.valid_from <= horizon_ms]
        replaced &= _replaced(sorted(known, key=lambda v: (v.valid_from, v.written)), removed_with)
    rest = [v for v in versions if id(v) not in replaced] if replaced else versions
    if len(rest) == 1 and rest[0].row is None and since(rest[0]) <= now_ms - history_ms:
        return []
    return rest


def _replaced(versions: Sequence[T], removed_with: Callable[[T, T], bool] | None) -> set[int]:
    """The ids of the objects that a later one replaces, whatever truncations follow."""
    if removed_with is None:
        return {id(v) for v in versions[:-1]}
    return {id(v) for n, v in enumerate(versions) if any(removed_with(v, later) for later in versions[n + 1 :])}


def _current(versions: Sequence[AnyVersion], now_ms: int) -> int:
    """The position of the version that holds; 0: none does yet."""
    for n in range(len(versions) - 1, 0, -1):
        if since(versions[n]) <= now_ms:
            return n
    return 0
