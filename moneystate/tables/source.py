"""What a load asks of a source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol

from moneystate.tables.rows import Read

CHUNK: Final = 2_000  # rows that are checked together


class Opened(Protocol):
    """A source while it is read, once."""

    @property
    def identity(self) -> str:
        """Says later which rows these were."""
        ...

    def rows(self) -> Iterator[Read]:
        """Raises SourceError."""
        ...

    def check_unchanged(self) -> None:
        """Runs after the last row. Raises SourceError if these are not the rows of one moment."""
        ...


class RowSource(Protocol):
    @property
    def where(self) -> str:
        """The name of the source in errors."""
        ...

    @property
    def unit(self) -> str:
        """Returns how rows are numbered: `LINE` or `ROW`."""
        ...

    @property
    def key(self) -> tuple[str, ...]:
        """The members of a row's document that are its key."""
        ...

    def open(self) -> AbstractContextManager[Opened]:
        """Raises SourceError."""
        ...
