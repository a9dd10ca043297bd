"""Formats the output of `moneystate checkpoint show` for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from moneystate.cli.tables import print_fields, print_table
from moneystate.ports.state import Row
from moneystate.records import exact_json

BUFFERED = "events that the watermark has not passed"


def print_job(seen: Row) -> None:
    console = Console(highlight=False)
    _print_pairs(console, {"watermark": seen["watermark"], "buffered": seen["buffered"], **seen["counts"]})
    _print_section(console, "partitions", seen["partitions"])
    console.print("rules", style="bold")
    _print_pairs(console, {name: value for name, value in seen["rules"].items() if name != "known_schemas"})


def print_key(seen: Row) -> None:
    console = Console(highlight=False)
    _print_pairs(console, {"key": seen["key"], "watermark": seen["watermark"]})
    sections = {**seen["state"], BUFFERED: seen["buffered"], "timers": seen["timers"]}
    for section, content in sections.items():
        if content:
            _print_section(console, section, content)


def _print_pairs(console: Console, values: Mapping[str, Any]) -> None:
    print_fields(console, {name: _cell(value) for name, value in values.items()})


def _print_section(console: Console, title: str, rows: list[Row]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    print_table(console, names, [[_cell(row.get(name)) for name in names] for row in rows], title)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("-")
    return Text(exact_json.dumps(value) if isinstance(value, (dict, list)) else str(value))
