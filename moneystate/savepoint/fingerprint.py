"""The fingerprint of a job's state: a hash that does not depend on order or storage (`moneystate.savepoint.facts`).

The sum mod 2^128 of BLAKE2b-128 of each fact, in two parts: `keys`, which a replica of the changelog has, too, and
`buffer`. So the fingerprint of the whole is the sum over its key groups, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from moneystate.ports.state import KEYS, Fact, Field, Pair, StateModel
from moneystate.savepoint.facts import facts

MODULUS = 1 << 128


@dataclass(frozen=True)
class Fingerprint:
    keys: int = 0
    buffer: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint((self.keys + other.keys) % MODULUS, (self.buffer + other.buffer) % MODULUS)

    def __str__(self) -> str:
        return f"{self.keys:032x}-{self.buffer:032x}"


def of_group(group: int, entries: Iterable[Pair], state: StateModel, rules: Mapping[str, Any]) -> Fingerprint:
    """The part of one key group, from its entries sorted by key. The clock is the same in all groups and counts in
    group 0. Raises Malformed, and CheckpointError for an entry that the service does not know."""
    return of_facts(facts(entries, state, rules, with_clock=group == 0))


def of_facts(group_facts: Iterable[Fact]) -> Fingerprint:
    keys = buffer = 0
    for fact in group_facts:
        n = int.from_bytes(blake2b(encode(fact), digest_size=16).digest(), "big")
        if fact.part == KEYS:
            keys += n
        else:
            buffer += n
    return Fingerprint(keys % MODULUS, buffer % MODULUS)


def encode(fact: Fact) -> bytes:
    """Bytes that no other fact has: each field with its type and length."""
    return b"".join([_field(field) for field in (fact.kind.encode(), fact.key, *fact.id, *fact.content)])


def _field(field: Field) -> bytes:
    if field is None:
        return b"-"
    if isinstance(field, int):
        return b"i%d;" % field
    return b"%d:%b" % (len(field), field)
