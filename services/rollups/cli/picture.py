"""A series as a picture, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moneystate.errors import SetupError
from services.rollups.zones import zone_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE: Final = (11.0, 4.0)  # inches
BLUE, GREY, RED = "#1f5fa8", "#8a8a8a", "#b3261e"
PERCENTILES: Final = (("p50", "-"), ("p90", "--"), ("p99", ":"))


class Gap(NamedTuple):
    start_ms: int
    end_ms: int


class Curve(NamedTuple):
    """Holds what is drawn of a series. Lists have a value for each bucket."""

    title: str
    unit: str
    zone: str
    starts_ms: Sequence[int]
    ends_ms: Sequence[int]
    means: Sequence[float]  # of a counter, its rates; NaN where there is none
    mins: Sequence[float]  # empty: no band
    maxs: Sequence[float]
    percentiles: dict[str, Sequence[float]]
    revisions: Sequence[int]
    gaps: Sequence[Gap]


def draw(curve: Curve, out: Path) -> None:
    """Writes a PNG or an SVG, by the name of the file. Times are local. Raises SetupError without matplotlib."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise SetupError(
            "rollups plot: expected the package matplotlib, which is not installed.", "pip install 'moneystate[plot]'."
        ) from None
    with mpl.rc_context({"svg.hashsalt": "moneystate", "hatch.linewidth": 0.6}):
        figure = Figure(figsize=SIZE, layout="constrained")
        _curve(figure.add_subplot(), curve)
        figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def _curve(axes: Axes, curve: Curve) -> None:
    import matplotlib.dates as dates

    times, places = _with_breaks(curve)
    if curve.mins:
        band = (_placed(curve.mins, places), _placed(curve.maxs, places))
        axes.fill_between(times, *band, color=BLUE, alpha=0.18, linewidth=0, label="min to max", gid="band")  # type: ignore[arg-type]
    for name, style in PERCENTILES:
        if name in curve.percentiles:
            values = _placed(curve.percentiles[name], places)
            axes.plot(times, values, style, color=GREY, linewidth=0.9, label=name, gid=name)  # type: ignore[arg-type]
    label = "mean" if curve.mins else "rate"
    axes.plot(times, _placed(curve.means, places), color=BLUE, linewidth=1.4, label=label, gid="mean")  # type: ignore[arg-type]
    corrected = [n for n, revision in enumerate(curve.revisions) if revision > 1]
    if corrected:
        points = [_middle(curve, n) for n in corrected], [curve.means[n] for n in corrected]
        axes.plot(*points, "o", color=RED, markersize=3.5, label="corrected", gid="corrected")  # type: ignore[arg-type]
    for n, gap in enumerate(curve.gaps):
        span = _time(gap.start_ms), _time(gap.end_ms)
        label = "no values" if n == 0 else "_"
        axes.axvspan(*span, facecolor="none", edgecolor=GREY, hatch="///", linewidth=0, label=label, gid=f"gap-{n}")  # type: ignore[arg-type]
    zone = zone_of(curve.zone)
    locator = dates.AutoDateLocator(tz=zone)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = dates.ConciseDateFormatter(locator, tz=zone)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    axes.set_title(curve.title, loc="left", fontsize=11)
    axes.set_ylabel(curve.unit)
    axes.set_xlabel(curve.zone)
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)


def _with_breaks(curve: Curve) -> tuple[list[datetime], list[int | None]]:
    """The middles of the buckets, and which one it is. None: a break, where buckets are missing."""
    times: list[datetime] = []
    places: list[int | None] = []
    for n in range(len(curve.starts_ms)):
        if n and curve.starts_ms[n] > curve.ends_ms[n - 1]:
            times.append(_time(curve.ends_ms[n - 1]))
            places.append(None)
        times.append(_middle(curve, n))
        places.append(n)
    return times, places


def _placed(values: Sequence[float], places: Sequence[int | None]) -> list[float]:
    return [float("nan") if n is None else values[n] for n in places]


def _middle(curve: Curve, n: int) -> datetime:
    return _time((curve.starts_ms[n] + curve.ends_ms[n]) // 2)


def _time(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1_000, UTC)


def curve_of(series: dict[str, Any], time_ms: Any) -> Curve:
    """Makes the curve of an answer in JSON. `time_ms`: reads a time of it."""
    rates = series["rates"]
    means = series["means"] if rates is None else [float("nan") if rate is None else rate for rate in rates]
    unit = series["unit"] if rates is None else f"{series['unit']}/s"
    return Curve(
        f"{series['device']}: {series['metric']} ({series['tier']})", unit, series["zone"],
        [time_ms(start) for start in series["starts"]], [time_ms(end) for end in series["ends"]], means,
        series["mins"] if rates is None else [], series["maxs"] if rates is None else [],
        {name: series[name] for name, _ in PERCENTILES if series[name] is not None and rates is None},
        series["revisions"], [Gap(time_ms(gap["start"]), time_ms(gap["end"])) for gap in series["gaps"]],
    )  # fmt: skip
