"""The interface of a service's stateful part: what it reads, its state and its step.

A `Processor` object is used for one key group in one batch at a time. For a batch the engine calls, in this order:
`begin` once, `process_unordered` for each record of an unordered input, `step` for each event and timer in the total
order, `finish` once; in a batch of `upgrade` also `rewrite`. A processor does I/O only through the
`StateAccess` that it is given, and reads no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from moneystate.engine.deadletter import Letter
from moneystate.engine.effects import Effects
from moneystate.engine.items import Item, UnorderedRecord
from moneystate.engine.state import StateAccess

Parsed = TypeVar("Parsed")

Change = tuple[bytes, bytes | None]  # entry key, new value; None: removed


class InputTopic(NamedTuple):
    """An input."""

    code: int  # stands for the topic in items and buffered state; never changes; orders topics of the same rank
    name: str  # without the topic prefix
    ordered: bool  # False: outside the order, no part in the watermark
    rank: int  # of its events
    bound_ms: int | None = None  # how far its records may be out of order; None: the job's
    max_future_ms: int | None = None  # how far they may be ahead of their Kafka timestamps; None: the job's
    timed: bool = False  # a timed stream: its records carry their places, and only marks move its time
    arrival: bool = False  # in arrival order: the event time of a record is its Kafka timestamp
    partitions: int = 0  # that the topic must have; 0: any number
    table: bool = False  # its records are the rows of a table
    waits: bool = False  # other inputs are read once the table's first load has ended
    compacted: bool = False  # the table accepts a topic that has lost rows


def bounds_of(inputs: Iterable[InputTopic], bound_ms: int) -> dict[int, int]:
    """The bound of each ordered input, by its code; timed streams have none. `bound_ms`: the job's, which does not
    hold for inputs in arrival order."""
    bounds: dict[int, int] = {}
    for t in inputs:
        if t.ordered and not t.timed:
            default = 0 if t.arrival else bound_ms
            bounds[t.code] = default if t.bound_ms is None else t.bound_ms
    return bounds


def needs_broker_time(input_topic: InputTopic | None) -> bool:
    """Whether the timestamps of an input have to be the broker's. One that declares a bound may have the
    producers'."""
    return input_topic is not None and input_topic.arrival and input_topic.bound_ms is None


class Rejected(Exception):
    """The record becomes a dead letter."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason  # a fixed name of `moneystate.engine.deadletter`
        # Names fields, what was expected, and symbols of enums. Never other values, which may be personal data.
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


Convert = Callable[[bytes], bytes]
"""Makes a value canonical. Raises Rejected."""

Decoded = tuple[bytes, int, bytes | list[bytes] | None]
"""A record's canonical value, its event time and its keys, as `Decoder.decode` returns them."""

Read = Callable[[Letter], Decoded | None]
"""Reads a whole record, with its key and headers. None: it is ignored. Raises Rejected."""


ReadValue = Callable[[bytes], Decoded]
"""Reads a value that is not in canonical form. Raises Rejected."""


class Decoder(Protocol):
    """The source's view of a processor: time, key and validity of a record."""

    def decode(self, topic: int, value: bytes) -> Decoded:
        """The value in canonical form, its event time in ms, and its key. With several keys it is processed once for
        each; with None only its time counts. Raises Rejected."""
        ...

    def reads(self, formats: Mapping[str, str], converts: Mapping[int, Convert]) -> dict[int, Read]:
        """The functions for topics whose records cannot be read from their values alone. `formats`: by topic name."""
        ...

    def values(self, formats: Mapping[str, str]) -> dict[int, ReadValue]:
        """The functions, by topic, that convert and decode a value in one pass. Other topics take two passes: a
        `Convert`, then `decode`. `formats`: by topic name."""
        ...

    def ends_load(self, topic: int, record: Letter) -> int | None:
        """The offset before which a table's records are of a load that this record shows to have ended. None: it does
        not show that."""
        ...

    def needs_headers(self, topic: int) -> bool:
        """Whether a topic's records can only be read with their headers."""
        ...

    def rejected(self, cause: Exception) -> Rejected | None:
        """The verdict on a record for which the service's code raised an error. None: the error ends the job."""
        ...


class Processor(Protocol, Generic[Parsed]):
    """The stateful part. `begin` parses each item once, into `Parsed`."""

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Parsed | None]:
        """Loads the entries that the batch will need, in few requests. `watermark_before`: before the batch."""
        ...

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None: ...

    def step(self, item: Item, parsed: Parsed | None, effects: Effects) -> None:
        """Processes one event or timer. `parsed` None: a timer that was set in this batch."""
        ...

    def finish(self, effects: Effects) -> list[Change]:
        """The changed entries, for the state and for the changelog."""
        ...

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]]) -> list[Change]:
        """The entries of earlier schemas, encoded in the current one."""
        ...
