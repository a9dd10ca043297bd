"""Completeness by pair and interval as a table with colours, on the screen or as SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Final

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from moneystate.cli.tables import UNBOUNDED, fitting
from moneystate.records.iso_time import from_ms
from services.reconciliation.records import Completeness

GOOD: Final = 100.0
FAIR: Final = 99.0
BAR_CELLS: Final = 20
WIDE: Final = 140  # characters of the SVG, more where the numbers need them
NAME_CELLS: Final = 20  # a longer name of a pair may be on several lines
TITLE: Final = "reconciliation"
FRAME_LINES: Final = 3  # title, head, and where the cursor is
ALL_COLUMNS: Final = (
    "pair", "from", "to", "complete", "", "expected", "matched", "missing", "pending", "unexpected", "duplicates",
    "late", "revision",
)  # fmt: skip
FEW_COLUMNS: Final = ("pair", "from", "complete", "missing", "pending", "unexpected")
LEFT: Final = ("pair", "from", "to", "")
RIGHT: Final = tuple(name for name in ALL_COLUMNS if name not in LEFT)
# rich's own frame of an SVG would fetch its font from the internet
SVG_FRAME: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


class Board:
    """The latest record of each interval. `intervals`: how many of a pair are shown, the last ones."""

    def __init__(self, intervals: int, pair: str = "") -> None:
        self.intervals = intervals
        self.pair = pair
        self.latest: dict[tuple[str, int], Completeness] = {}

    def take(self, record: Completeness) -> None:
        self.latest[record.pair, record.interval_start] = record

    def shown(self, height: int) -> list[list[Completeness]]:
        """The completeness by pair, the latest interval first, no more than a screen of so many lines holds."""
        pairs = sorted({pair for pair, _ in self.latest if self.pair in ("", pair)})
        most = min(self.intervals, max(1, (height - FRAME_LINES) // max(1, len(pairs))))
        return [self._of(pair)[:most] for pair in pairs]

    def _of(self, wanted: str) -> list[Completeness]:
        mine = [record for (pair, _), record in self.latest.items() if pair == wanted]
        return sorted(mine, key=lambda record: record.interval_start, reverse=True)

    def view(self, width: int, height: int = UNBOUNDED) -> RenderableType:
        """Draws the board for a screen of so many characters and lines. A narrow one shows what matters most; nothing
        is cut off."""
        shown = self.shown(height)
        for columns in (ALL_COLUMNS, FEW_COLUMNS):
            if least_width(shown, columns) <= width:
                return table(shown, columns)
        rows = [[cells(record)[name] for name in FEW_COLUMNS] for records in shown for record in records]
        return fitting(FEW_COLUMNS, rows, width, TITLE, RIGHT)

    def svg(self) -> str:
        width = max(WIDE, least_width(self.shown(UNBOUNDED), ALL_COLUMNS))
        console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        console.print(self.view(width))
        return console.export_svg(title=TITLE, code_format=SVG_FRAME)


def table(shown: Sequence[Sequence[Completeness]], columns: Sequence[str], name_cells: int | None = None) -> Table:
    """The name of a pair is shown once. `name_cells`: of its column, None for what there is room for."""
    made = Table(title=TITLE, title_justify="left", box=None, pad_edge=False, collapse_padding=True)
    for name in columns:
        if name == "pair":
            made.add_column(name, overflow="fold", width=name_cells)
        else:
            made.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
    for records in shown:
        for number, record in enumerate(records):
            row = cells(record) | ({"pair": Text()} if number else {})
            made.add_row(*[row[name] for name in columns])
    if not made.rows:
        made.add_row("no interval yet")
    return made


def least_width(shown: Sequence[Sequence[Completeness]], columns: Sequence[str]) -> int:
    """Returns what the columns take without being cut off, with room for a name."""
    longest = max((cell_len(record.pair) for records in shown for record in records), default=0)
    wide = Console(width=UNBOUNDED)
    return Measurement.get(wide, wide.options, table(shown, columns, max(4, min(longest, NAME_CELLS)))).maximum


def cells(record: Completeness) -> dict[str, Text]:
    """One row, by column."""
    return {
        "pair": Text(record.pair, style="bold"),
        "from": Text(_clock(record.interval_start)),
        "to": Text(_clock(record.interval_end)[-8:]),
        "complete": Text(percent_text(record.percent), style=colour_of(record.percent)),
        "": bar(record),
        "expected": Text(f"{record.expected:,}"),
        "matched": Text(f"{record.matched:,}"),
        "missing": _count(record.missing, "red"),
        "pending": _count(record.pending, "cyan"),
        "unexpected": _count(record.unexpected, "magenta"),
        "duplicates": _count(record.duplicates, "yellow"),
        "late": _count(record.too_late, "yellow"),
        "revision": Text("final" if record.final else str(record.revision), style="dim"),
    }


def colour_of(percent: float) -> str:
    return "green" if percent == GOOD else "yellow" if percent >= FAIR else "red"


def percent_text(percent: float) -> str:
    """Two digits, cut off: 99.999 is not shown as 100."""
    return f"{Decimal(str(percent)).quantize(Decimal('0.01'), ROUND_DOWN)}%"


def bar(record: Completeness) -> Text:
    """Matched, pending and missing side by side; what there is has a cell at least."""
    if record.expected == 0:
        return Text("")
    missing = _bar_cells(record.missing, record.expected)
    pending = _bar_cells(record.pending, record.expected)
    matched = max(0, BAR_CELLS - missing - pending)
    return Text.assemble(("█" * matched, "green"), ("▒" * pending, "cyan"), ("█" * missing, "red"))


def _bar_cells(n: int, whole: int) -> int:
    return -(-n * BAR_CELLS // whole)


def _count(n: int, colour: str) -> Text:
    return Text(f"{n:,}", style=colour if n else "dim")


def _clock(time_ms: int) -> str:
    """Formats the time of any year: an interval may reach beyond the years of `datetime`."""
    date, _, time = from_ms(time_ms).partition("T")
    return f"{date} {time[:8]}"
