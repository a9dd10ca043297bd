"""Where two savepoints differ, fact by fact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from services.savepoint.facts import Fact, Field, facts
from services.savepoint.format import Savepoint
from services.savepoint.rescale import rescaled


class Difference(NamedTuple):
    """`one`, `other`: what each says of the same thing; None: it says nothing."""

    kind: str
    user: bytes
    id: tuple[Field, ...]
    one: tuple[Field, ...] | None
    other: tuple[Field, ...] | None


@dataclass(frozen=True)
class Comparison:
    """`total`: of all differences, of which `first` are some."""

    total: int
    first: list[Difference]


def compare(one: Savepoint, other: Savepoint, most: int) -> Comparison:
    """The first `most` differences, by key group. `other` is read in the key groups of `one`; a key group of each is
    in memory at a time."""
    found: list[Difference] = []
    total = 0
    if one.manifest.fingerprint != other.manifest.fingerprint:
        for group in range(one.manifest.key_groups):
            for difference in _of_group(one, other, group):
                total += 1
                if total <= most:
                    found.append(difference)
    return Comparison(total, found)


def _of_group(one: Savepoint, other: Savepoint, group: int) -> Iterator[Difference]:
    mine, theirs = _facts(one, one, group), _facts(other, one, group)
    for key in sorted(mine.keys() | theirs.keys(), key=repr):
        a, b = mine.get(key), theirs.get(key)
        if a != b:
            kind, user, id = key
            yield Difference(kind, user, id, a, b)


Known = dict[tuple[str, bytes, tuple[Field, ...]], tuple[Field, ...]]


def _facts(savepoint: Savepoint, like: Savepoint, group: int) -> Known:
    """By what they are about, in the key groups of `like`."""
    manifest = savepoint.manifest
    groups = like.manifest.key_groups
    if groups == manifest.key_groups:
        entries = list(savepoint.entries(group))
    else:
        entries = rescaled(group, groups, savepoint.entries, manifest.key_groups, manifest.rules["bound_ms"], {})
    found: list[Fact] = list(facts(entries, manifest.rules["dedup_ttl_ms"], with_clock=group == 0))
    return {(fact.kind, fact.user, fact.id): fact.content for fact in found}
