"""Tables for people. A table that does not fit the terminal becomes a list of fields for each row. No cell is cut off
or broken, so ids can be copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

Cell = str | Text
UNBOUNDED = 1_000_000  # characters
RULE = "-"


def fitting(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], width: int, title: str = "", right: Sequence[str] = ()
) -> RenderableType:
    """The table, or the list of fields, for `width` characters. `right`: columns of numbers."""
    cells = [[_text(cell) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, title=_text(title) if title else None, title_justify="left")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True, overflow="ignore")
    for row in cells:
        table.add_row(*row)
    wide = Console(width=UNBOUNDED)
    if Measurement.get(wide, wide.options, table).maximum <= width:
        return table
    return _fields(columns, cells, title)


def print_table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[Cell]], title: str = "", right: Sequence[str] = ()
) -> None:
    """Prints a table. If the output is not a terminal, lines are as long as necessary."""
    console = console if console.is_terminal else Console(file=console.file, width=UNBOUNDED)
    console.print(fitting(columns, rows, console.width, title, right), soft_wrap=True)


def print_fields(console: Console, values: Mapping[str, Cell]) -> None:
    console.print(_fields(list(values), [[_text(cell) for cell in values.values()]], ""), soft_wrap=True)


def _fields(columns: Sequence[str], rows: Sequence[Sequence[Text]], title: str) -> Text:
    """A line for each field, with a rule between rows."""
    longest = max(map(len, columns), default=0)
    blocks = [
        Text("\n").join(
            Text.assemble(f"{name:<{longest}}", "  ", cell) for name, cell in zip(columns, row, strict=True)
        )
        for row in rows
    ]
    body = Text(f"\n{RULE * longest}\n").join(blocks)
    return Text("\n").join([_text(title), body]) if title else body


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)
