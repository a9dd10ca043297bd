"""The handles of a service's declarations. Its functions use them to name inputs, outputs, state and timers.

`moneystate.api.service.Service` creates handles, usually at the top level of a module. Handles never change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from moneystate.api.entries import Entries
from moneystate.api.message import Message
from moneystate.records.reading import Key, Time
from moneystate.records.types import Arrival, Unavailable

if TYPE_CHECKING:
    from moneystate.api.tables import DeclaredTable

E = TypeVar("E")
O = TypeVar("O")  # noqa: E741
A = TypeVar("A", covariant=True)
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")

Duration: TypeAlias = int | Callable[[Any], int]  # ms, or a function from the rules to ms
NO_LIMIT: Final = 0


class Source(Generic[E]):
    """The source of a function's records: one input, or several (`payments | transactions`)."""

    def __init__(self, inputs: Sequence[Input[Any]]) -> None:
        self.inputs = list(inputs)

    def __or__(self, other: Source[O]) -> Source[E | O]:
        return Source([*self.inputs, *other.inputs])


class Input(Source[E]):
    """Records of one type in one topic."""

    def __init__(
        self, service: str, topic: str, record: type[E], key: Key | None, time: Time | None,
        unique: str | None,
        within_ms: Duration, bound_ms: Duration | None, max_future_ms: Duration | None, rank: int | None, ordered: bool,
        timed: bool, format: str, decode: Callable[[Message], Any] | None, fallback: Callable[[Message], Any] | None,
        unavailable: Unavailable, partitions: int | None, table: DeclaredTable[Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__([self])
        self.service = service
        self.topic = topic
        self.record = record
        # `moneystate.api.service.Service.input` explains these
        self.key = key
        self.time = time
        self.arrival = isinstance(time, Arrival)
        self.unique = unique
        self.within_ms = within_ms
        self.bound_ms = bound_ms
        self.max_future_ms = max_future_ms
        self.rank = rank
        self.ordered = ordered
        self.timed = timed
        self.format = format
        self.decode = decode
        self.fallback = fallback
        self.unavailable = unavailable
        self.partitions = partitions
        self.table = table  # whose rows it has; None: it has events

    def __repr__(self) -> str:
        return f"input {self.topic!r} of {self.record.__name__}" if self.table is None else repr(self.table)


class Output(Generic[T]):
    """A topic that the service writes."""

    def __init__(
        self, service: str, topic: str, record: type[T], key: Key, compacted: bool, timed: bool, partitions: int | None,
        format: str, keep_ms: int = NO_LIMIT, record_time: str | None = None,
    ) -> None:  # fmt: skip
        self.service = service
        self.topic = topic
        self.record = record
        self.key = key
        self.compacted = compacted
        self.keep_ms = keep_ms  # of a compacted one: how long Kafka keeps a record; NO_LIMIT: for good
        self.timed = timed  # other services may read it in this service's order
        self.partitions = partitions
        self.format = format
        self.record_time = record_time  # the field with the Kafka timestamp; None: that of the writing

    def of_topic(self) -> tuple[object, ...]:
        """The settings that all outputs of a topic share."""
        return self.compacted, self.keep_ms, self.timed, self.partitions, self.format

    def __repr__(self) -> str:
        return f"output {self.topic!r}"


class Reads(Generic[A]):
    """State that a function declares. `A` is the type of the argument that it receives."""

    service: str
    name: str


class Value(Reads[S]):
    """One record for each key. A function receives the record itself, and its changes are stored."""

    def __init__(self, service: str, name: str, record: type[S], ttl_ms: Duration | None) -> None:
        self.service = service
        self.name = name
        self.record = record
        self.ttl_ms = ttl_ms  # None: none is declared

    def __repr__(self) -> str:
        return f"value {self.name!r}"


class Map(Reads[Entries[S]], Generic[S]):
    """Many records for each key, by id. A function receives them as `ms.Entries`."""

    def __init__(self, service: str, name: str, record: type[S], ttl_ms: Duration | None) -> None:
        self.service = service
        self.name = name
        self.record = record
        self.ttl_ms = ttl_ms  # None: none is declared

    def at(self, ids: str | Callable[[Any], list[str]]) -> MapAt[S]:
        """Returns the same map, with entries that are read in the batch's one request. `ids`: a field of the event with
        an id, or a function from the event to ids. Other entries are read when the step asks for them."""
        return MapAt(self, ids)

    def __repr__(self) -> str:
        return f"map {self.name!r}"


class MapAt(Reads[Entries[S]], Generic[S]):
    """A map with the ids of the entries to read with the batch."""

    def __init__(self, of: Map[S], ids: str | Callable[[Any], list[str]]) -> None:
        self.service = of.service
        self.name = of.name
        self.of = of
        self.ids = ids


class Timer:
    """A timer for each key. To set it again replaces it."""

    def __init__(self, service: str, name: str) -> None:
        self.service = service
        self.name = name

    def __repr__(self) -> str:
        return f"timer {self.name!r}"


class MapTimer(Generic[S]):
    """A timer for each id of a map, under each key."""

    def __init__(self, service: str, name: str, of: Map[S]) -> None:
        self.service = service
        self.name = name
        self.of = of

    def __repr__(self) -> str:
        return f"timer {self.name!r}"


class AnyIndex(Generic[S, V]):
    """The base of `Index` and `MapIndex`."""

    def __init__(self, service: str, name: str, of: Value[S] | Map[S], by: Callable[[S], Any]) -> None:
        self.service = service
        self.name = name
        self.of = of
        self.by = by
        self.record: type = of.record  # what `by` takes
        self.personal: bool | None = None  # None: `moneystate.runtime.personal_free` decides

    def __repr__(self) -> str:
        return f"index {self.name!r}"


class Index(AnyIndex[S, V]):
    """Finds keys by the result of `by` for their value."""


class MapIndex(AnyIndex[S, V]):
    """Finds the entries of a map, under all keys, by the result of `by`."""
