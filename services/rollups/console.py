"""The pages of rollups in the console: a series as a picture that can be zoomed, and silent devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moneystate.console.faces import Ask, Block, Choice, Face, Graph, Line, Note, NotThere, Rows
from moneystate.records.iso_time import to_ms
from services.rollups.tiers import BY_NAME

TIERS: Final = ("", *(name for name in BY_NAME if name != "1m"), "1m")
WEEK: Final = timedelta(days=7)
PERCENTILES: Final = ("p50", "p90", "p99")
POINTS: Final = 1_000


def graph(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    since, until = span(given)
    tier = {"tier": given["tier"]} if given["tier"] else {}
    series = ask(
        "series", device=given["device"], metric=given["metric"], points=POINTS, **{"from": since, "to": until}, **tier
    )
    if not series["starts"]:
        return [Note("There are no readings in this time.")]
    return [drawn(series), Note(described(series))]


def span(given: Mapping[str, str]) -> tuple[str, str]:
    """Returns the span that is asked for, by default the last week."""
    now = datetime.now(UTC).replace(microsecond=0)
    until = given["to"] or _text(now)
    try:
        return given["from"] or _text(datetime.fromisoformat(until) - WEEK), until
    except ValueError:
        raise NotThere(f"{until}: expected a time such as 2026-01-31T10:00:00Z.") from None


def _text(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def drawn(series: Mapping[str, Any]) -> Graph:
    """Gauges have a line of means in a band, counters one of rates. The line is broken at gaps."""
    starts = [to_ms(start) for start in series["starts"]]
    ends = [to_ms(end) for end in series["ends"]]
    is_counter = series["rates"] is not None
    means = numbers(series["rates"] if is_counter else series["means"])
    corrected = [
        mean if revision > 1 else None for mean, revision in zip(means, series["revisions"], strict=True)
    ]  # fmt: skip
    lines = [Line("rate" if is_counter else "mean", means, "mean")]
    if not is_counter:
        lines += [Line("min", numbers(series["mins"]), "low"), Line("max", numbers(series["maxs"]), "high")]
        lines += [Line(name, numbers(series[name])) for name in PERCENTILES if series[name] is not None]
    if any(value is not None for value in corrected):
        lines.append(Line("corrected", corrected, "marks"))
    breaks = [(end, starts[n + 1]) for n, end in enumerate(ends[:-1]) if starts[n + 1] > end]
    times, places = with_breaks(starts, breaks)
    unit = f"{series['unit']}/s" if is_counter else series["unit"]
    return Graph(
        f"{series['device']}: {series['metric']}, by {series['tier']}", times,
        [Line(line.label, placed(line.values, places), line.role) for line in lines],
        unit, series["zone"], ("from", "to"), [(to_ms(gap["start"]), to_ms(gap["end"])) for gap in series["gaps"]],
    )  # fmt: skip


def numbers(values: Sequence[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


def with_breaks(starts: Sequence[int], breaks: Sequence[tuple[int, int]]) -> tuple[list[int], list[int | None]]:
    """The times of the graph, and for each the number of the bucket; None where the line is broken."""
    places: list[tuple[int, int | None]] = [(start, n) for n, start in enumerate(starts)]
    places = sorted([*places, *((end, None) for end, _ in breaks)], key=lambda one: one[0])
    return [time for time, _ in places], [n for _, n in places]


def placed(values: Sequence[float | None], places: Sequence[int | None]) -> list[float | None]:
    return [None if n is None else values[n] for n in places]


def described(series: Mapping[str, Any]) -> str:
    complete = numbers(series["completeness"])
    known = [value for value in complete if value is not None]
    share = f", {100 * sum(known) / len(known):.1f} % of the expected readings" if known else ""
    corrected = sum(revision > 1 for revision in series["revisions"])
    is_open = " The last bucket is still open." if series["open"] else ""
    return f"{len(complete)} buckets{share}, {corrected} corrected, {len(series['gaps'])} gaps.{is_open}"


def silent(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    return [Rows("Silent devices", ask("silent", since=given["since"], limit=500), "All devices have sent readings.")]


FACES: Final = (
    Face(
        "graph", "Graph", "a metric of a device over time; select a part of the picture to look closer",
        graph,
        (
            Choice("device", "Device"), Choice("metric", "Metric"),
            Choice("from", "From", hint="by default a week before"), Choice("to", "To", hint="by default now"),
            Choice("tier", "Tier", values=TIERS, hint="by default the finest that fits"),
        ),
        ("device", "metric"),
    ),
    Face(
        "silent", "Silent devices", "devices that have sent nothing since a time",
        silent, (Choice("since", "Since", hint="a time such as 2026-01-31T10:00:00Z"),), ("since",),
    ),
)  # fmt: skip
