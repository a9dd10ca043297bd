"""The port to the meaning of state entries, for everything that reads them outside a batch: savepoints,
fingerprints, rescaling, migrations, tools.

An entry belongs to an owner: the key, as key groups see it, that the events behind it have. The first letter of an
entry's key is its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from moneystate.engine import fingerprints
from moneystate.engine.items import END_OF_TIME, NO_TIME, Item
from moneystate.errors import CheckpointError

Pair = tuple[bytes, bytes]  # an entry's key and value
Field = bytes | int | None
Row = dict[str, Any]
Migration = Callable[[bytes], bytes]

KEYS, BUFFER = "keys", "buffer"
NAMED_TIMERS = "named-timers"  # a section of `StateModel.view`; no state can have such a name

# The schemas of the engine's own entries.
ENGINE_SCHEMAS = (fingerprints.BUFFER_CHUNK, fingerprints.KEY_GROUP_CLOCK, fingerprints.KEY_GROUP_CLOCK_V1)


class Fact(NamedTuple):
    """One statement that a state makes."""

    part: str  # KEYS or BUFFER
    kind: str  # name of the kind, for people
    key: bytes  # the owner; empty: concerns all owners
    id: tuple[Field, ...]  # unique among the facts of this kind and owner
    content: tuple[Field, ...]  # differs if two states disagree about the fact


@dataclass(frozen=True)
class Versions:
    """The schemas of the state, as single-object headers, and the migrations between them."""

    written: Sequence[bytes]  # all schemas that this program writes, including the engine's
    up: Mapping[bytes, Migration] = field(default_factory=dict)  # migration from an earlier schema

    def schemas(self) -> list[str]:
        """All schemas, in hex, that entries of the state may have."""
        return sorted({header.hex() for header in [*ENGINE_SCHEMAS, *self.written, *self.up]})


class StateModel(Protocol):
    """The meaning of a service's entries. It is pickled into Spark's tasks."""

    @property
    def kinds(self) -> bytes:
        """The letters with which keys of entries start. The engine's letters (`moneystate.engine.keys`) are
        reserved."""
        ...

    @property
    def topics(self) -> Mapping[int, str]:
        """The input topics by their numbers in the state."""
        ...

    @property
    def versions(self) -> Versions: ...

    def owner_of(self, key: bytes) -> bytes | None:
        """The owner of the entry with this key; None: the key is not one of this service."""
        ...

    def counts_owner(self, key: bytes) -> bool:
        """Whether owners are counted by this entry. It must be an entry that every owner, or almost every owner, has
        once."""
        ...

    def facts(self, key: bytes, value: bytes, watermark: int, rules: Mapping[str, Any]) -> Iterator[Fact]:
        """The facts that an entry states, independent of how it is stored. Anything that can no longer influence a
        result is not a fact. Raises Malformed."""
        ...

    def held_since(self, key: bytes, value: bytes) -> int | None:
        """The order time in ms since which the entry holds an output back (`Effects.hold`); None: it holds none."""
        ...

    def view(self, entries: Iterable[Pair], watermark: int, rules: Mapping[str, Any]) -> Row:
        """Everything in one owner's entries, as plain data: a list of rows by the name of its section."""
        ...

    def event_view(self, value: bytes) -> Any:
        """An event's canonical value as plain data. Raises Malformed."""
        ...

    def fact_view(self, kind: str, content: tuple[Field, ...]) -> Row | None:
        """The content of a fact as plain data, by the fact's kind. None: its fields say what there is to say."""
        ...

    def timer_view(self, item: Item) -> str:
        """Describes in words what a timer of the service is for."""
        ...


def owner(state: StateModel, key: bytes) -> bytes:
    """The owner of an entry. Raises CheckpointError for an entry that the service does not know: it must be neither
    dropped nor skipped, because nobody can say what it means."""
    its_owner = state.owner_of(key)
    if its_owner is None:
        kinds = ", ".join(chr(kind) for kind in sorted(state.kinds))
        raise CheckpointError(
            f"state: expected entries of the kinds {kinds}, whose owner this program can tell, found one with the key "
            f"{key!r}.",
            "use the program that wrote it, or newer.",
        )
    return its_owner


def time_text(ms: int) -> str | None:
    """ISO-8601; None before the first event and at the end of time, which a drained job has reached."""
    if ms == NO_TIME or ms >= END_OF_TIME:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
