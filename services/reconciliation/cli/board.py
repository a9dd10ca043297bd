"""Completeness by pair and interval as a table with colours, on the screen or as SVG."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from services.reconciliation.records import Completeness

GOOD: Final = 100.0
FAIR: Final = 99.0
BAR_CELLS: Final = 20
WIDE: Final = 140  # characters
ALL_COLUMNS: Final = (
    "pair", "from", "to", "complete", "", "expected", "matched", "missing", "pending", "unexpected", "duplicates",
    "late", "revision",
)  # fmt: skip
FEW_COLUMNS: Final = ("pair", "from", "complete", "missing", "pending", "unexpected")
LEFT: Final = ("pair", "from", "to", "")
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

    def shown(self) -> list[list[Completeness]]:
        """The completeness by pair, the latest interval first."""
        pairs = sorted({pair for pair, _ in self.latest if self.pair in ("", pair)})
        return [self._of(pair)[: self.intervals] for pair in pairs]

    def _of(self, wanted: str) -> list[Completeness]:
        mine = [record for (pair, _), record in self.latest.items() if pair == wanted]
        return sorted(mine, key=lambda record: record.interval_start, reverse=True)

    def table(self, width: int) -> Table:
        """For a screen of so many characters: a narrow one shows what matters most."""
        columns = ALL_COLUMNS if width >= WIDE else FEW_COLUMNS
        table = Table(title="reconciliation", title_justify="left", box=None, pad_edge=False)
        for name in columns:
            table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
        for records in self.shown():
            for number, record in enumerate(records):
                row = cells(record, first=number == 0)
                table.add_row(*[row[name] for name in columns], end_section=number == len(records) - 1)
        if not table.rows:
            table.add_row("no interval yet")
        return table

    def svg(self) -> str:
        nowhere = io.StringIO()
        console = Console(record=True, width=WIDE, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(self.table(WIDE))
        return console.export_svg(title="reconciliation", code_format=SVG_FRAME)


def cells(record: Completeness, first: bool) -> dict[str, Text]:
    """One row, by column. `first`: of its pair, whose name is shown once."""
    return {
        "pair": Text(record.pair if first else "", style="bold"),
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
    return f"{int(percent * 100) / 100:.2f}%"


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
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
