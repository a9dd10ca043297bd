"""What a service gives the engine: what it reads, its state and its step.

One `Processor` object serves one key group in one batch after the other. For a batch the engine calls, in this order:
`begin` once, `process_unordered` for each record of an unordered input, `step` for each event and timer in the total
order, `finish` once; in a batch of `state upgrade` or `state downgrade` also `rewrite`. It does no I/O but through the
`StateAccess` that it is given, and sees no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from moneystate.engine.effects import Effects
from moneystate.engine.items import Item, UnorderedRecord
from moneystate.engine.state import StateAccess

Parsed = TypeVar("Parsed")

Change = tuple[bytes, bytes | None]  # entry key, new value or None where it was removed


class InputTopic(NamedTuple):
    """An input. `code` stands for it in items and in buffered state: stable, ordered as the names are."""

    code: int
    name: str  # without the topic prefix
    ordered: bool  # False: outside the order, no part in the watermark
    rank: int  # of its events


class Rejected(Exception):
    """A record that is a dead letter. `reason` is one of the fixed names of `moneystate.engine.deadletter`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class Decoder(Protocol):
    """The source's view of a processor: time, key and validity of a record."""

    def decode(self, topic: int, value: bytes) -> tuple[int, bytes | list[bytes] | None]:
        """Event time in ms and key of a canonical value, or several keys, for each of which it is processed once; key
        None: nothing but its time counts. Raises Rejected."""
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
