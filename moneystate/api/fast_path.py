"""A fast path: code that answers most events of an input from their bytes, without making objects.

It stands beside the function of the input, which defines what is right. A fast path emits the record that the function
would emit, and changes no state. It declines every event for which the function does more or anything else. It is worth
its code only in a compiled module, for the input that most events come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from moneystate.api.handles import Output

FastEvent = tuple[bytes, list[bytes], Any]
"""An event as a fast path reads it: the text of the field that the input declares as `unique`; the ids of the states
that the function gets with `map.at`, in that order (empty: no entry); and what `answer` needs."""


class FastPath(Protocol):
    def read(self, value: bytes) -> FastEvent | None:
        """Reads an event. None: the fast path declines it. `value`: in single-object encoded Avro,
        with the schema of the input's record."""
        ...

    def answer(self, parts: Any, now: int, states: Sequence[bytes | None]) -> bytes | None:
        """Returns the output's record with the key of the event, in single-object encoded Avro. None: the fast path
        declines.

        `states`: Avro bodies, without headers, of the function's values and of the entries that it gets with
        `map.at`. None: there is no entry, or it has expired."""
        ...


class DeclaredFastPath(NamedTuple):
    """Where a fast path stands, and the output that it emits to."""

    path: Callable[[bytes], FastPath]  # from the header of the output's records
    output: Output[Any]
