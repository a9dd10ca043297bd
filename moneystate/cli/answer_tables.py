"""Answers of the query server on the terminal: headings, tables and the status."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from moneystate.cli.tables import print_table
from moneystate.engine.items import END_OF_TIME
from moneystate.records.iso_time import from_ms
from moneystate.state.v1 import header_pb2, status_pb2

PIPE_WIDTH = 1_000

# a pipe has no width, so rows must not be broken
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def status(answer: status_pb2.GetStatusResponse) -> None:
    heading(answer.header)
    rows = [
        ["caught up", "yes" if answer.caught_up else "no"],
        ["oldest version", version(answer.oldest)],
        ["records behind", f"{answer.lag_records:,}"],
        ["keys", f"about {answer.keys:,}"],
        ["key groups", str(answer.key_groups)],
        ["database", f"{answer.database_bytes / 1e6:,.1f} MB"],
        ["server", answer.server_version],
    ]
    rows += [[_counted(c), f"{c.entries:,}"] for c in answer.schema_counts]
    table(["what", "value"], rows)


def _counted(count: status_pb2.SchemaCount) -> str:
    """Returns what is counted: entries of a schema, or without a version what could not be used."""
    return f"{count.kind} entries, schema v{count.schema_version}" if count.schema_version else count.kind


def version(message: header_pb2.Version) -> str:
    return f"{message.epoch}/{message.batch}" if message.epoch else "none yet"


def heading(header: header_pb2.Header) -> None:
    watermark = time_of(header.watermark_ms) if header.HasField("watermark_ms") else "none yet"
    say(f"version {version(header.version)}, watermark {watermark}, {header.staleness_ms:,} ms old")


def table(columns: list[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """Prints texts literally: values from events must not be read as markup, and their control characters must not
    reach a terminal."""
    cells = [[_plain(str(cell)) for cell in row] for row in rows]
    if cells:
        print_table(console, columns, cells, _plain(title).plain)
    else:
        console.print(Text("nothing"))


def _plain(text: str) -> Text:
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def say(text: str) -> None:
    console.print(_plain(text))


def place_of(event_source: header_pb2.Source) -> str:
    return f"{event_source.topic}[{event_source.partition}]@{event_source.offset}"


def time_of(ms: int) -> str:
    return "the end (drained)" if ms >= END_OF_TIME else from_ms(ms)
