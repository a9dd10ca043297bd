"""The interface of a service's stateful part: what it reads, its state and its step.

One `Processor` object serves one key group in one batch after the other. For a batch the engine calls, in this order:
`begin` once, `process_unordered` for each record of an unordered input, `step` for each event and timer in the total
order, `finish` once; in a batch of `upgrade` or `downgrade` also `rewrite`. It does no I/O but through the
`StateAccess` that it is given, and sees no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from moneystate.engine.deadletter import Letter
from moneystate.engine.effects import Effects
from moneystate.engine.items import Item, UnorderedRecord
from moneystate.engine.state import StateAccess

Parsed = TypeVar("Parsed")

Change = tuple[bytes, bytes | None]  # entry key, new value or None where it was removed


class InputTopic(NamedTuple):
    """An input. `code` stands for it in items and in buffered state: stable, the order of topics of the
    same rank."""

    code: int
    name: str  # without the topic prefix
    ordered: bool  # False: outside the order, no part in the watermark
    rank: int  # of its events
    bound_ms: int | None = None  # how far its records may be out of order; None: the job's
    max_future_ms: int | None = None  # how far they may be ahead of their Kafka timestamps; None: the job's
    timed: bool = False  # a timed stream: its records carry their places, and only marks move its time


def bounds_of(inputs: Iterable[InputTopic], bound_ms: int) -> dict[int, int]:
    """The bound of each ordered input that is no timed stream, by its code. `bound_ms`: the job's."""
    return {t.code: bound_ms if t.bound_ms is None else t.bound_ms for t in inputs if t.ordered and not t.timed}


class Rejected(Exception):
    """A record that is a dead letter. `reason` is one of the fixed names of `moneystate.engine.deadletter`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


Convert = Callable[[bytes], bytes]
"""Makes a value canonical. Raises Rejected."""

Decoded = tuple[bytes, int, bytes | list[bytes] | None]
"""A record's canonical value, and its event time and keys as `Decoder.decode` has them."""

Read = Callable[[Letter], Decoded | None]
"""Reads a whole record, with its key and headers. None: it is ignored. Raises Rejected."""


class Decoder(Protocol):
    """The source's view of a processor: time, key and validity of a record."""

    def decode(self, topic: int, value: bytes) -> tuple[int, bytes | list[bytes] | None]:
        """Event time in ms and key of a canonical value, or several keys, for each of which it is processed once; key
        None: nothing but its time counts. Raises Rejected."""
        ...

    def reads(self, formats: Mapping[str, str], converts: Mapping[int, Convert]) -> dict[int, Read]:
        """By topic: of those whose records cannot be told by their values alone. `formats`: of topics, by name."""
        ...

    def needs_headers(self, topic: int) -> bool:
        """Whether nothing can be said of a topic's records without their headers."""
        ...


class Processor(Protocol, Generic[Parsed]):
    """The stateful part. `Parsed` is what `begin` makes of an item, so that each is parsed once."""

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Parsed | None]:
        """Load what the batch will need, in few rounds. `watermark_before` is the one before the batch."""
        ...

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None: ...

    def step(self, item: Item, parsed: Parsed | None, effects: Effects) -> None:
        """One event or timer; `parsed` is None for a timer that was set in this batch."""
        ...

    def finish(self, effects: Effects) -> list[Change]:
        """The changed entries, for the state and, as they are, for the changelog."""
        ...

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]], version: int) -> list[Change]:
        """Those of the entries that are not as state version `version` has them, as it has them."""
        ...
