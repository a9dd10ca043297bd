"""Compares two states, fact by fact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from moneystate.ports.state import KEYS, Fact, Field, StateModel
from moneystate.savepoint.facts import facts
from moneystate.savepoint.format import Savepoint
from moneystate.savepoint.rescale import largest_bound_ms, rescaled

FactsOf = Callable[[int], Iterable[Fact]]  # a key group's


class Difference(NamedTuple):
    """A fact on which two states differ."""

    kind: str
    key: bytes
    id: tuple[Field, ...]
    one: tuple[Field, ...] | None  # what the first state says; None: nothing
    other: tuple[Field, ...] | None  # what the second state says; None: nothing


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two states."""

    total: int  # number of all differences
    first: list[Difference]  # some of them


def compare(state: StateModel, one: Savepoint, other: Savepoint, most: int) -> Comparison:
    """Compares two states. Returns the first `most` differences, by key group. `other` is read in the key groups of
    `one`; one key group of each is in memory at a time."""
    if one.manifest.fingerprint == other.manifest.fingerprint:
        return Comparison(0, [])
    groups = one.manifest.key_groups
    return compare_facts(
        lambda group: _facts(state, one, group, groups), lambda group: _facts(state, other, group, groups), groups, most
    )


def compare_facts(one: FactsOf, other: FactsOf, key_groups: int, most: int) -> Comparison:
    """Compares facts that are already grouped by the same key groups."""
    listed: list[Difference] = []
    total = 0
    for group in range(key_groups):
        for difference in _differences(_known(one(group)), _known(other(group))):
            total += 1
            if total <= most:
                listed.append(difference)
    return Comparison(total, listed)


def keys_facts(state: StateModel, savepoint: Savepoint) -> FactsOf:
    """The facts of a savepoint that a replica of the changelog has, too."""
    groups = savepoint.manifest.key_groups
    return lambda group: (fact for fact in _facts(state, savepoint, group, groups) if fact.part == KEYS)


Known = dict[tuple[str, bytes, tuple[Field, ...]], tuple[Field, ...]]  # content, by what it is about


def _differences(mine: Known, theirs: Known) -> Iterator[Difference]:
    for about in sorted(mine.keys() | theirs.keys(), key=repr):
        a, b = mine.get(about), theirs.get(about)
        if a != b:
            yield Difference(*about, a, b)


def _known(group_facts: Iterable[Fact]) -> Known:
    return {(fact.kind, fact.key, fact.id): fact.content for fact in group_facts}


def _facts(state: StateModel, savepoint: Savepoint, group: int, groups: int) -> Iterator[Fact]:
    """The facts, grouped into that many key groups, whatever the savepoint has."""
    manifest = savepoint.manifest
    if groups == manifest.key_groups:
        entries = list(savepoint.entries(group))
    else:
        entries = rescaled(
            state, group, groups, savepoint.entries, manifest.key_groups, largest_bound_ms(manifest.rules), {}
        )
    return facts(entries, state, manifest.rules, with_clock=group == 0)
