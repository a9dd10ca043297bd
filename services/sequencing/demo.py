"""`moneystate demo sequencing`: a basketball game that two producers write, put right."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from moneystate.devbroker.demo import Came, Sent, Step, play

TABLES: Final = """
[sequencing]
g1 = "10s"
k = 1
g2 = "15s"
policy = "skip"
follows_field = "play"
follows = { assist = ["basket"] }
"""
SEED: Final = 7
START_MS: Final = 1_772_395_200_000
GAME: Final = "game-7"
PLAYS: Final = ("basket", "foul", "assist", "basket", "basket", "foul", "assist", "basket", "foul", "assist", "basket")
LOST: Final = 9  # nobody ever writes this play
DOUBTED: Final = 5  # and the court sees another play here than the table
OUTPUTS: Final = ["sequenced-output", "sequenced-requests", "sequenced-findings", "sequencing-dead-letters"]
LINES: Final = {
    "Sequenced": "{seq:>2}  {body[play]}",
    "GapSkipped": "{from:>2}  never came",
    "StreamEnded": "{last} plays: the end",
    "EventsRequested": "asked for: {from:>2}",
    "SequenceConflict": "a conflict: {seq}  {event[body][play]}",
}


def _sent(at_s: float, told: str, **record: Any) -> Sent:
    return Sent(at_s, "sequenced-input", {"stream": GAME, "time": START_MS + int(1_000 * at_s), **record}, told)


def _event(at_s: float, producer: str, seq: int, title: str) -> Sent:
    told = f"{producer}: {seq:>2}  {title}"
    return _sent(at_s, told, type="StreamEvent", seq=seq, eventId=f"play-{seq}", body={"play": title})


def game(chance: random.Random) -> Iterator[Sent]:
    """Yields a game as the table and the court send it, each with delays of its own; some plays are written by both."""
    for seq, title in enumerate(PLAYS, 1):
        for producer in chance.choice((["table"], ["court"], ["table", "court"])):
            delay_s = round(chance.random() * (3 if producer == "table" else 9), 1)
            if seq != LOST:
                yield _event(seq + delay_s, producer, seq, title)
    yield _event(DOUBTED + 9.5, "court", DOUBTED, "foul")
    yield _sent(len(PLAYS) + 12, f"table: {len(PLAYS)} plays in all", type="StreamClosed", last=len(PLAYS))


def line(came: Came) -> str:
    if came.value is None:
        return f"dead letter: {came.reason}"
    return LINES.get(came.value["type"], "{type}").format_map(came.value)


def demo() -> bool:
    promised = [f"{seq:>2}  {title}" for seq, title in enumerate(PLAYS, 1)]
    promised[LOST - 1] = f"{LOST:>2}  never came"
    promised += [f"{len(PLAYS)} plays: the end", f"asked for: {LOST:>2}", f"a conflict: {DOUBTED}  foul"]
    sent = tuple(sorted(game(random.Random(SEED)), key=lambda s: s.at_s))
    step = Step("A game from two producers: one play lost, one doubted", GAME, sent, tuple(promised))
    return play("sequencing", TABLES, [step], OUTPUTS, line)
