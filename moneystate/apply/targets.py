"""What a target does in a transaction, once it knows the database and its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from moneystate.apply.database import Connected, Tx
from moneystate.apply.outbox import Outgoing, Stream
from moneystate.apply.records import Read, Record, Refused
from moneystate.apply.staging import Staging


@dataclass
class Effects:
    """Holds what goes out of a transaction, and what is counted."""

    dead_letters: str  # topic
    staging: Staging
    streams: dict[tuple[str, int], Stream]  # by topic with prefix and partition
    outgoing: Outgoing = field(default_factory=Outgoing)
    letters: int = 0

    def refuse(self, record: Record, refused: Refused) -> None:
        self.outgoing.dead_letter(self.stream(record), record, refused, self.dead_letters)
        self.letters += 1

    def stream(self, record: Record) -> Stream:
        return self.streams[record.topic, record.partition]


class Applied(Protocol):
    """A target at work."""

    @property
    def name(self) -> str: ...
    @property
    def topics(self) -> Sequence[str]:
        """The topics that it reads, with prefix."""

    @property
    def isolation(self) -> str: ...

    def prepare(self, connection: Connected) -> None:
        """Looks at the database. Raises ConfigError for what does not fit, and psycopg's errors."""

    def read(self, record: Record) -> Any:
        """Returns what the record is to the target; None: nothing. Raises Refused, and BrokerError of a registry."""

    def apply(self, tx: Tx, reads: Sequence[Read], effects: Effects) -> None:
        """Takes the records' effects. Raises psycopg's errors, Reject and Refused for a record that a handler rejects,
        and any other error of a handler."""


class Committed(Exception):
    """A handler ended the transaction that it was given."""
