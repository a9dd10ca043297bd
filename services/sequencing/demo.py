"""`moneystate demo sequencing`: a basketball game that two producers write, put right."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moneystate.devbroker.demo import Came, Sent, Step, play

TABLES: Final = """
[sequencing]
g1 = "5s"
k = 1
g2 = "15s"
policy = "skip"
follows_field = "kind"
follows = { ASSIST = ["POINT"] }
"""
SEED: Final = 18
START: Final = datetime(2026, 3, 1, 20, tzinfo=UTC)
GAME: Final = "game-7"
POINTS: Final = (2, 3, 2, 2, 3, 2, 2, 3, 2, 2)
LOST: Final = 9  # nobody ever writes this play
DOUBTED: Final = 5  # and the court sees another play here than the table
OUTPUTS: Final = ["sequenced-output", "sequenced-requests", "sequenced-findings", "sequencing-dead-letters"]


def plays() -> list[dict[str, Any]]:
    """What happened, in order: before every third basket an assist, after every fourth a foul."""
    happened: list[dict[str, Any]] = []
    for number, points in enumerate(POINTS):
        team = ("home", "away")[number % 2]
        if number % 3 == 1:
            happened.append({"kind": "ASSIST", "team": team})
        happened.append({"kind": "POINT", "team": team, "points": points})
        if number % 4 == 3:
            happened.append({"kind": "FOUL", "team": team})
    return happened


def written(chance: random.Random) -> list[Sent]:
    """By the table and the court, each with delays of its own; some plays are written by both."""
    sent: list[Sent] = []
    for seq, play_ in enumerate(plays(), 1):
        if seq == LOST:
            continue
        for producer in chance.choice((["table"], ["court"], ["table"], ["court"], ["table", "court"])):
            at_s = 2 * seq + round(chance.random() * (3 if producer == "table" else 9), 1)
            sent.append(_sent(at_s, producer, seq, play_))
    other = {"kind": "POINT", "team": "home", "points": 3}
    return sorted([*sent, _sent(2 * DOUBTED + 9.5, "court", DOUBTED, other)])


def _sent(at_s: float, producer: str, seq: int, body: dict[str, Any]) -> Sent:
    time = (START + timedelta(seconds=at_s)).isoformat()
    record = {"type": "StreamEvent", "stream": GAME, "seq": seq, "eventId": f"play-{seq}", "body": body, "time": time}
    return Sent(at_s, "sequenced-input", record, f"{producer}: {seq:>2}  {told(body)}")


def told(body: dict[str, Any]) -> str:
    return " ".join(str(body[name]) for name in ("kind", "team", "points") if name in body)


def closed(at_s: float) -> Sent:
    time = (START + timedelta(seconds=at_s)).isoformat()
    record = {"type": "StreamClosed", "stream": GAME, "last": len(plays()), "time": time}
    return Sent(at_s, "sequenced-input", record, f"table: the game had {len(plays())} plays")


def line(came: Came) -> str:
    record = came.value
    if record is None:
        return f"dead letter: {came.reason}"
    if record["type"] == "Sequenced":
        return f"{record['seq']:>2}  {told(record['body'])}" + "".join(f", not after {v}" for v in record["violates"])
    if record["type"] == "EventsRequested":
        return f"asked for {record['from']} to {record['to']}"
    if record["type"] == "GapSkipped":
        return f"skipped {record['from']} to {record['to']}"
    if record["type"] == "SequenceConflict":
        return f"conflict: {record['seq']}  {told(record['event']['body'])}"
    return str(record["type"])


def promised() -> tuple[str, ...]:
    lines = [f"{seq:>2}  {told(play_)}" for seq, play_ in enumerate(plays(), 1)]
    lines[LOST - 1] = f"skipped {LOST} to {LOST}"
    return (*lines, "StreamEnded", f"asked for {LOST} to {LOST}", f"conflict: {DOUBTED}  POINT home 3")


def demo() -> bool:
    records = (*written(random.Random(SEED)), closed(2 * len(plays()) + 12))
    step = Step("A game that two producers write, with a lost play and a doubted one", GAME, records, promised())
    return play("sequencing", TABLES, [step], OUTPUTS, line)
