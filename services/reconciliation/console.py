"""The pages of reconciliation in the console: completeness, open differences, lost items, and what is known of an
item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moneystate.console.faces import Ask, Block, Choice, Face, HeatMap, Rows, Spot
from moneystate.records.iso_time import from_ms, to_ms

MOST: Final = 500
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
LEVELS: Final = (100.0, 99.9, 99.0, 90.0)  # least percent of the levels 0 to 3 of the heat map


def board(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    intervals = ask("intervals_of", pair=given["pair"], limit=MOST)
    open_ones = [one for one in intervals if not one["final"]]
    title = f"Completeness in percent, {len(intervals)} intervals, {len(open_ones)} of them not final"
    return [heat_map(title, intervals), Rows("By interval, the latest first", intervals, "No interval is known.")]


def heat_map(title: str, intervals: Sequence[Mapping[str, Any]]) -> HeatMap:
    """A row for each month, day or hour, whichever has at most 96 intervals, and a column for each interval of it."""
    spots: dict[str, dict[str, Spot]] = {}
    for one in intervals:
        row, column = place_of(to_ms(one["intervalStart"]), to_ms(one["intervalEnd"]))
        spots.setdefault(row, {})[column] = spot_of(one)
    columns = sorted({column for its in spots.values() for column in its})
    rows = {row: [spots[row].get(column) for column in columns] for row in sorted(spots, reverse=True)}
    return HeatMap(title, columns, rows, "No interval is known.")


def place_of(start_ms: int, end_ms: int) -> tuple[str, str]:
    text, length_ms = from_ms(start_ms), end_ms - start_ms
    if length_ms >= DAY_MS:
        return text[:7], text[8:10]
    if length_ms >= HOUR_MS // 4:
        return text[:10], text[11:16]
    return text[:13].replace("T", " ") + " h", text[14:19]


def spot_of(one: Mapping[str, Any]) -> Spot:
    percent = float(one["percent"])
    level = sum(percent < least for least in LEVELS)
    counts = ", ".join(f"{one[name]} {name}" for name in ("expected", "matched", "missing", "pending", "unexpected"))
    mark = "" if one["final"] else "*"
    return Spot(
        f"{percent:.1f}{mark}", level, f"{one['intervalStart']}: {counts}{'' if one['final'] else '; not final'}"
    )


def differences(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    return [
        Rows("Open differences, the oldest event first", ask("differences_of", pair=given["pair"], limit=MOST)),
        Rows("Lost items, the oldest event first", ask("lost_of", pair=given["pair"], limit=MOST)),
    ]


def history(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    shown = ask("history_of", source=given["source"], event_id=given["event"])
    return [Rows("What is known of it, by pair", shown, "Nothing is known of it.")]


FACES: Final = (
    Face("board", "Completeness", "how much of each interval has arrived; * is not final", board,
         (Choice("pair", "Pair"),), ("pair",), service="reconciliation-completeness"),
    Face("differences", "Open differences", "what one side announced and the other lacks", differences,
         (Choice("pair", "Pair"),), ("pair",), service="reconciliation"),
    Face("history", "An item", "what is known of an item in each pair", history,
         (Choice("source", "Source"), Choice("event", "Id of the event")), ("source", "event"),
         service="reconciliation"),
)  # fmt: skip
