"""Describes a service's entries to a replica: keys, indices, and the proofs of erasure.

An index key is `x`, the length of the index's name (1 byte), the name, a value (`moneystate.records.index_order`), the
owner (as a string in the same encoding), and the id of a map entry. Each index key belongs to one entry, so the replica
can store it by version."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from functools import cached_property, partial
from types import MethodType
from typing import Any, Final, NamedTuple

from moneystate.api.forgetting import FORGOTTEN
from moneystate.api.handles import AnyIndex
from moneystate.api.rules import plain
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.errors import MoneystateError, ServiceError
from moneystate.records import index_order
from moneystate.records.index_order import END, Span
from moneystate.runtime import layout
from moneystate.runtime.cells import Cell, RecordKind, TimerKind, decode_entry
from moneystate.runtime.function_code import code_text
from moneystate.runtime.plan import Plan
from moneystate.runtime.plans import plan_as_run, plan_of, reference_as_run
from moneystate.runtime.reference import is_factory, made_at
from moneystate.runtime.reference import path_of as module_of

ORDERED: Final = b"x"
UNKNOWN: Final = 0  # the version number of an unknown schema


class Place(NamedTuple):
    """The content of an index key."""

    value: bytes
    owner: bytes
    id: bytes


def index_prefix(name: str) -> bytes:
    return ORDERED + bytes([len(name)]) + name.encode("ascii")


def index_span(name: str, span: Span) -> Span:
    """The range of index keys for a range of values."""
    prefix = index_prefix(name)
    return Span(prefix + span.low, prefix + span.high)


def place_of(name: str, key: bytes) -> Place:
    """Decodes an index key."""
    start = len(index_prefix(name))
    value_end = index_order.end_of_value(key, start)
    owner, id_start = index_order.read_text(key, value_end + len(END))
    return Place(key[start:value_end], owner, key[id_start:])


class Unindexed(ServiceError):
    """Some indices cannot have an entry. `keys` are those of the other indices."""

    def __init__(self, problem: str, do: str, indices: list[str], keys: set[bytes]) -> None:
        super().__init__(problem, do)
        self.indices = indices
        self.keys = keys


def _encloses(by: Any) -> bool:
    """Whether a function may have variables of the function that made it, or of its object, such as a factory's
    configuration."""
    by = inspect.unwrap(by)
    return isinstance(by, (partial, MethodType)) or getattr(by, "__closure__", None) is not None


class ReplicaModel:
    """The replica's model of a service. It is pickled into the replica's processes."""

    def __init__(self, reference: str) -> None:
        # a reference and not a plan, so that this object can be pickled into the replica's processes
        self.reference = reference

    def __reduce__(self) -> tuple[Any, ...]:
        return ReplicaModel, (self.reference,)

    @cached_property
    def plan(self) -> Plan:
        return plan_of(self.reference)

    def plan_at(self, rules: Mapping[str, Any]) -> Plan:
        """The plan with the rules of an earlier batch, as far as the changelog records them."""
        return plan_as_run(self.reference, rules)

    def as_run(self, rules: Mapping[str, Any]) -> ReplicaModel:
        """A factory's functions can have its configuration, which is that of the run. A run with rules that this
        program refuses is read with its own."""
        run = reference_as_run(self.reference, rules) if rules else self.reference
        if run == self.reference:
            return self
        try:
            made_at(run)
        except MoneystateError:
            return self
        return ReplicaModel(run)

    @cached_property
    def changelog(self) -> str:
        return f"{self.plan.name}-state"

    @cached_property
    def owners(self) -> str:
        """The state by whose entries keys are counted: the first declared one that is not the proof."""
        return next((name for name in self.plan.kinds if name != FORGOTTEN or self.plan.forgetting is None), "")

    @cached_property
    def fingerprint(self) -> str:
        """The schema fingerprint of that state."""
        first = self.plan.kinds.get(self.owners)
        return "" if first is None else first.header[2:HEADER_BYTES][::-1].hex()

    @cached_property
    def layout(self) -> str:
        """A digest of everything except the entries that index keys depend on: the indices and their functions."""
        digest = hashlib.sha256()
        for index in self.plan.service.indices.values():
            kind = self.plan.kinds[index.of.name]
            digest.update(f"{index.name} {index.of.name} {kind.header.hex()} ".encode())
            digest.update(code_text(index.by, index.record).encode())
        if any(_encloses(index.by) for index in self.plan.service.indices.values()) and is_factory(
            module_of(self.reference)
        ):
            digest.update(json.dumps(plain(self.plan.rules), sort_keys=True).encode())
        return digest.hexdigest()[:16]

    @cached_property
    def _indices(self) -> dict[str, list[AnyIndex[Any, Any]]]:
        by_state: dict[str, list[AnyIndex[Any, Any]]] = {}
        for index in self.plan.service.indices.values():
            by_state.setdefault(index.of.name, []).append(index)
        return by_state

    def split(self, key: bytes) -> tuple[bytes, bytes] | None:
        place = layout.place_of(key)
        if place is None:
            return None
        return place.owner, key[1 : 2 + key[1]] + place.id

    def join(self, kind: bytes, owner: bytes, rest: bytes) -> bytes:
        name_end = 1 + rest[0]
        return layout.entry_key(kind + rest[:name_end], owner, rest[name_end:])

    def schema(self, value: bytes) -> tuple[str, int]:
        return self._names.get(value[:HEADER_BYTES], (f"unknown {value[:HEADER_BYTES].hex()}", UNKNOWN))

    @cached_property
    def _names(self) -> dict[bytes, tuple[str, int]]:
        """Names and version numbers of schemas, by header. States with the same record share a name."""
        names: dict[bytes, tuple[str, int]] = {}
        for kind in self.plan.by_prefix.values():
            if isinstance(kind, RecordKind):
                for number, forms in enumerate([*kind.versions[1:], kind.versions[0]], 1):
                    for header in forms:
                        names.setdefault(header, (kind.name, number))
            else:
                names[kind.header] = ("timer" if isinstance(kind, TimerKind) else "seen", 1)
        return names

    def index_keys(self, owner: bytes, kind: bytes, rest: bytes, value: bytes) -> set[bytes]:
        """The index keys of an entry. Raises Unindexed if a function of the service fails."""
        name_end = 1 + rest[0]
        indices = self._indices.get(rest[1:name_end].decode("ascii", "replace"))
        if not indices or kind not in (layout.VALUE, layout.ENTRY):
            return set()
        record_kind = self.plan.by_prefix.get(kind + rest[:name_end])
        if record_kind is None:
            return set()  # the state was a map before, or a value
        cell = Cell(b"", record_kind, owner, b"")
        cell.load(value)
        tail = END + index_order.text(owner) + rest[name_end:]
        keys: set[bytes] = set()
        failed: dict[str, MoneystateError] = {}
        for index in indices:
            prefix = index_prefix(index.name)
            try:
                keys.update(prefix + value + tail for value in self._values(index, cell))
            except MoneystateError as e:
                failed[index.name] = e
        if failed:
            first = next(iter(failed.values()))
            raise Unindexed(first.message, first.do, list(failed), keys)
        return keys

    def _values(self, index: AnyIndex[Any, Any], cell: Cell) -> set[bytes]:
        where = f"service {self.plan.name!r}: {index!r}"
        try:
            if not cell.decoded:
                cell.decode()
            return index_order.encode_all(index.by, cell.value, where)
        except MoneystateError:
            raise
        except Malformed as e:
            raise ServiceError(f"{where}: {e}.", "use the program that wrote the state, or a newer one.") from None
        except Exception as e:
            raise ServiceError(
                f"{where}: its function raised {type(e).__name__}: {e}, for key {cell.owner.decode()!r}.",
                "fix the function; it may return None to leave a record out of the index.",
            ) from e

    @cached_property
    def proof(self) -> bytes:
        """Kind and rest of the entry that says that its owner was forgotten. Empty: the service declares none."""
        kind = self.plan.kinds.get(FORGOTTEN) if self.plan.forgetting is not None else None
        return b"" if kind is None else kind.prefix

    @cached_property
    def _lookups(self) -> frozenset[bytes]:
        """The prefixes of the entries of lookups, if keys can be forgotten."""
        return frozenset(self.plan.kinds[name].prefix for name in self.plan.service.lookups if self.proof)

    def is_of_lookup(self, kind: bytes, rest: bytes) -> bool:
        """Whether an entry is of a lookup that may outlast the forgetting of its owner. Such an entry stays until the
        reply."""
        return kind == layout.ENTRY and kind + rest[: 1 + rest[0]] in self._lookups

    def outlasts(self, owner: bytes, kind: bytes, rest: bytes, value: bytes, proof: bytes) -> bool:
        """Whether an entry of a lookup was open when its owner was forgotten. `proof`: the value of the proof. Raises
        Malformed."""
        place = layout.place_of(self.join(kind, owner, rest))
        asked_at = None if place is None else self.plan.asked_at(place, value)
        forgotten = decode_entry(self.plan.kinds[FORGOTTEN], proof).value
        return asked_at is not None and asked_at <= forgotten.at
