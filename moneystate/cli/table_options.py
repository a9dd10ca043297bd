"""The options of `moneystate table` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from moneystate.cli.option import DURATION, PATH, Panel, choice, option
from moneystate.tables.columns import Names
from moneystate.tables.files import FileFormat
from moneystate.tables.loading import OnError

SCOPE: Final = "TABLE"  # prefix of the variables whose names other commands have, too

SourceFile = Annotated[
    Path | None, typer.Argument(metavar="SOURCE", help="A file of CSV, JSON Lines or Parquet.", show_default=False)
]
Topic = Annotated[str, option("topic", "The table's topic, without its prefix.", Panel.topics, "TOPIC")]
Key = Annotated[
    str,
    option("key", "Columns of the rows' key, separated by commas.", Panel.input, "COLUMN,...", scope=SCOPE,
           shown="the key that --service declares"),
]  # fmt: skip
Sql = Annotated[str, option("sql", "A query whose rows are the table, instead of a file.", Panel.input, "QUERY")]
DsnFile = Annotated[
    Path | None,
    option("dsn-file", "File with the connection string for --sql, as libpq or SQLAlchemy take it.", Panel.input, PATH),
]
Types = Annotated[
    str,
    option(
        "types", "Types of a CSV file's columns: text, int, number, bool, time, date, json.", Panel.input,
        "COLUMN=TYPE,...", shown="those of --service, else text",
    ),
]  # fmt: skip
NamesChoice = Annotated[
    Names, choice("names", "camel: valid_from becomes validFrom, as records are named in JSON.", Panel.input, Names)
]
Zone = Annotated[
    str,
    option(
        "zone", "Zone of times without an offset, such as UTC.", Panel.input, "ZONE", shown="such times are refused"
    ),
]
Format = Annotated[
    FileFormat | None,
    option("file-format", "Format of the file.", Panel.input, "|".join(FileFormat), scope=SCOPE, shown="by its name"),
]
Delimiter = Annotated[str, option("delimiter", "Between the cells of a CSV file.", Panel.input, "CHARACTER")]
OnErrorChoice = Annotated[
    OnError,
    option(
        "on-error", "fail: a row that cannot be loaded ends the load. skip: the topic keeps what it has of it.",
        Panel.run, "|".join(OnError), scope=SCOPE,
    ),
]  # fmt: skip
AllowDeletes = Annotated[
    bool, option("allow-deletes", "Load also if most rows are gone, or all.", Panel.run)
]  # fmt: skip
EveryDuration = Annotated[str, option("every", "Stay, and load again after this time.", Panel.run, DURATION)]
Watch = Annotated[bool, option("watch", "Stay, and load again when the file has changed.", Panel.run)]
DryRun = Annotated[bool, option("dry-run", "Show what would change, and write nothing.", Panel.run, scope=SCOPE)]
DigestsFolder = Annotated[
    Path | None,
    option(
        "digests", "Folder of digests of the topic's rows; built from the topic where it is missing.", Panel.run, PATH,
        shown="~/.local/state/moneystate/tables/TOPIC-ID",
    ),
]  # fmt: skip
CreateTopic = Annotated[bool, option("create-topic", "Create the topic if it is missing.", Panel.topics)]
