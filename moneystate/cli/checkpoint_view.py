"""Formats the output of `moneystate checkpoint show` for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from moneystate.ports.state import Row

ENGINE_TITLES = {
    "buffered": "events that the watermark has not passed",
    "timers": "timers",
}


def job_tables(seen: Row) -> Iterator[RenderableType]:
    yield _pairs({"watermark": seen["watermark"], "buffered": seen["buffered"], **seen["counts"]})
    yield _section("partitions", seen["partitions"])
    yield Text("rules", style="bold")
    yield _pairs({name: value for name, value in seen["rules"].items() if name != "known_schemas"})


def user_tables(seen: Row, titles: Mapping[str, str]) -> Iterator[RenderableType]:
    titles = {**titles, **ENGINE_TITLES}
    head: Row = {"user": seen["user"], "watermark": seen["watermark"]}
    for section in seen.keys() - titles.keys() - head.keys():
        head.update(seen[section] or {})
    yield _pairs(head)
    for section, content in seen.items():
        if not content or section not in titles:
            continue
        if isinstance(content, dict):
            yield Text(titles[section], style="bold")
            yield _pairs(content)
        else:
            yield _section(titles[section], content)


def _pairs(values: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in values.items():
        table.add_row(name, _cell(value))
    return table


def _section(title: str, rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for name in rows[0] if rows else ():
        table.add_column(name)
    for row in rows:
        table.add_row(*[_cell(value) for value in row.values()])
    return table


def _cell(value: Any) -> Text:
    if value is None:
        return Text("-")
    return Text(json.dumps(value) if isinstance(value, dict) else str(value))
