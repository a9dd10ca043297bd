"""The pages of sequencing in the console: gaps, and the streams that wait for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moneystate.console.faces import Ask, Block, Choice, Face, Rows

MOST: Final = 200


def gaps(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    return [
        Rows("Gaps, the oldest first", ask("gaps", limit=MOST), "No stream has a gap."),
        Rows("Streams that are stalled", ask("stalled", limit=MOST), "No stream is stalled."),
        Rows("Streams that are parked", ask("parked", limit=MOST), "No stream is parked."),
    ]


def held(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    return [Rows("Events that are held, in the order of their numbers", ask("held_events", stream=given["stream"]))]


FACES: Final = (
    Face("gaps", "Gaps", "numbers that are missing, and the streams that wait for them", gaps),
    Face("held", "Held events", "events of a stream that came early", held, (Choice("stream", "Stream"),), ("stream",)),
)
