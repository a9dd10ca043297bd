"""The pages of reconciliation in the console: open differences, lost items, and what is known of an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moneystate.console.faces import Ask, Block, Choice, Face, Rows

MOST: Final = 500


def differences(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    return [
        Rows("Open differences, the oldest event first", ask("differences_of", pair=given["pair"], limit=MOST)),
        Rows("Lost items, the oldest event first", ask("lost_of", pair=given["pair"], limit=MOST)),
    ]


def history(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    shown = ask("history_of", source=given["source"], event_id=given["event"])
    return [Rows("What is known of it, by pair", shown, "Nothing is known of it.")]


FACES: Final = (
    Face("differences", "Open differences", "what one side announced and the other lacks", differences,
         (Choice("pair", "Pair"),), ("pair",)),
    Face("history", "An item", "what is known of an item in each pair", history,
         (Choice("source", "Source"), Choice("event", "Id of the event")), ("source", "event")),
)  # fmt: skip
