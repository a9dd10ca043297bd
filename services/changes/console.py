"""The pages of changes in the console: transactions that are not applied, and what they lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moneystate.console.faces import Ask, Block, Choice, Face, Rows

MOST: Final = 200


def open_transactions(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    return [
        Rows("Transactions that are not applied, the oldest first", ask("open_transactions", limit=MOST)),
        Rows("Events that wait for others (wait mode)", ask("waiting_events", limit=MOST)),
    ]


def row(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    known = ask("row", table=given["table"], key=given["key"])
    events = ask("events_of", table=given["table"], key=given["key"])
    return [
        Rows("The row", [known] if known else [], "The row is not known."),
        Rows("Its last events, the newest first", events or []),
    ]


FACES: Final = (
    Face("open", "Open transactions", "what has not been applied, and what it lacks", open_transactions),
    Face(
        "row", "A row", "a row of a table and its last events", row,
        (Choice("table", "Table"), Choice("key", "Key", hint="a JSON array, such as [1]")), ("table", "key"),
    ),
)  # fmt: skip
