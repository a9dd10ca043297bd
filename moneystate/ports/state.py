"""The port to the meaning of state entries, for everything that reads them outside a batch: savepoints,
fingerprints, rescaling, migrations, tools.

An entry belongs to an owner: the key, as key groups see it, that the events behind it have. The first letter of an
entry's key is its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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

USERS, BUFFER = "users", "buffer"

# Of the engine's own entries. A service's schemas are its own.
ENGINE_SCHEMAS = (fingerprints.BUFFER_CHUNK, fingerprints.KEY_GROUP_CLOCK, fingerprints.KEY_GROUP_CLOCK_V1)


class Fact(NamedTuple):
    """One statement that a state makes."""

    part: str  # USERS or BUFFER
    kind: str  # name of the kind, for people
    user: bytes  # the owner; empty: concerns all owners
    id: tuple[Field, ...]  # unique among the facts of this kind and owner
    content: tuple[Field, ...]  # differs if two states disagree about the fact


@dataclass(frozen=True)
class Versions:
    """The schemas of the state, as single-object headers, and the migrations between them."""

    written: Mapping[int, list[bytes]]  # all schemas of each state version, including the engine's
    up: Mapping[bytes, Migration] = field(default_factory=dict)  # migration from a schema to its next version
    down: Mapping[bytes, Migration] = field(default_factory=dict)  # migration from a schema to its previous version
    left_alone: list[bytes] = field(default_factory=list)  # schemas of entries that earlier programs never read
    # By event schema: the first state version whose programs know it.
    events_since: Mapping[bytes, int] = field(default_factory=dict)

    def schemas(self) -> list[str]:
        """In hex, all that entries of the state may have."""
        current = self.written[max(self.written)]
        return sorted({header.hex() for header in [*ENGINE_SCHEMAS, *current, *self.up]})


class StateModel(Protocol):
    """A service's entries. Pickled into Spark's tasks."""

    @property
    def kinds(self) -> bytes:
        """The letters that keys of entries begin with; none of the engine's (`moneystate.engine.keys`)."""
        ...

    @property
    def topics(self) -> Mapping[int, str]:
        """Inputs by the number that stands for them in the state."""
        ...

    @property
    def versions(self) -> Versions: ...

    @property
    def titles(self) -> Mapping[str, str]:
        """For people, of the sections of `view`. One without a title is shown with the owner."""
        ...

    def owner_of(self, key: bytes) -> bytes | None:
        """Whose an entry is, by its key; None for a key that is none of this service."""
        ...

    def counts_owner(self, key: bytes) -> bool:
        """Whether owners are counted by this entry: one of each owner, or of most."""
        ...

    def facts(self, key: bytes, value: bytes, watermark: int, rules: Mapping[str, Any]) -> Iterator[Fact]:
        """What an entry says, however it is stored. What influences no result any more is no fact. Raises Malformed."""
        ...

    def held_since(self, key: bytes, value: bytes) -> int | None:
        """The order time in ms since when the entry holds an output back; None where it holds none
        (`Effects.hold`)."""
        ...

    def view(self, entries: Iterable[Pair], watermark: int, rules: Mapping[str, Any]) -> Row:
        """All that the entries of one owner have, as plain data by section: a list of rows, or one row. A section that
        is empty is falsy."""
        ...

    def event_view(self, value: bytes) -> Any:
        """An event's canonical value as plain data. Raises Malformed."""
        ...

    def timer_view(self, item: Item) -> str:
        """What a timer of the service is for, in words."""
        ...


def owner(state: StateModel, key: bytes) -> bytes:
    """Whose an entry is. Raises CheckpointError for an entry that the service does not know: nobody can say what it
    means, so it must be neither dropped nor passed over."""
    user = state.owner_of(key)
    if user is None:
        kinds = ", ".join(chr(kind) for kind in sorted(state.kinds))
        raise CheckpointError(
            f"state: expected entries of the kinds {kinds}, whose owner this program can tell, found one with the key "
            f"{key!r}.",
            "use the program that wrote it, or newer.",
        )
    return user


def time_text(ms: int) -> str | None:
    """ISO-8601; None before any time and at the end of time, which a drained job has reached."""
    if ms == NO_TIME or ms >= END_OF_TIME:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
