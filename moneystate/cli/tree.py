"""The commands of `moneystate`, by name. A command's module is imported when the command is looked up: all of them take
longer than the start of a job's JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
import typer.main

from moneystate.cli import known_services
from moneystate.cli.command import add, new_group

JOBS, QUERIES, STATE, TOOLS = "Jobs", "Queries", "State and history", "Development"


class Place(NamedTuple):
    """Describes where a command is, MODULE:NAME of a function or of a group, its panel in the help, and how `add` adds
    it."""

    panel: str
    home: str
    any_words: bool = False
    logs: bool = False


PLACES: Final[dict[str, Place]] = {
    "run": Place(JOBS, "moneystate.cli.run:run", any_words=True, logs=True),
    "plan": Place(JOBS, "moneystate.cli.plan:plan", any_words=True),
    "lookup-worker": Place(JOBS, "moneystate.cli.lookup_worker:lookup_worker", logs=True),
    **{name: Place(JOBS, home) for name, home in known_services.FAKES.items()},
    "doctor": Place(JOBS, "moneystate.cli.doctor:doctor", any_words=True),
    "skew": Place(JOBS, "moneystate.cli.skew:skew"),
    "heartbeat": Place(JOBS, "moneystate.cli.heartbeat:heartbeat", logs=True),
    "table": Place(JOBS, "moneystate.cli.table:app"),
    "ingest": Place(JOBS, "moneystate.cli.ingest:ingest", logs=True),
    "deliver": Place(JOBS, "moneystate.cli.deliver:deliver", logs=True),
    "apply": Place(JOBS, "moneystate.cli.apply:app"),
    "transactions": Place(JOBS, "moneystate.cli.transactions:app"),
    "dead-letters": Place(JOBS, "moneystate.cli.dead_letters:app"),
    "serve": Place(QUERIES, "moneystate.cli.serve:serve", logs=True),
    "ask": Place(QUERIES, "moneystate.cli.ask:command", any_words=True),
    "console": Place(QUERIES, "moneystate.cli.console:console", logs=True),
    **{name: Place(QUERIES, home) for name, home in known_services.GROUPS.items()},
    "checkpoint": Place(STATE, "moneystate.cli.checkpoint:app"),
    "rescale": Place(STATE, "moneystate.cli.rescale:rescale"),
    "bootstrap": Place(STATE, "moneystate.cli.bootstrap:bootstrap", any_words=True),
    "archive": Place(STATE, "moneystate.cli.archive:archive"),
    "verify-replay": Place(STATE, "moneystate.cli.verify_replay:verify_replay"),
    "demo": Place(TOOLS, "moneystate.cli.demo:demo"),
    "check": Place(TOOLS, "moneystate.cli.check:check"),
    "schemas": Place(TOOLS, "moneystate.cli.schemas:app"),
    "kafka": Place(TOOLS, "moneystate.cli.kafka:app"),
}


class Commands(Mapping[str, Any]):
    """Commands and groups as Typer makes them, each when it is looked up. Names are known without that."""

    def __init__(self) -> None:
        self.made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = _made(name, PLACES[name])
        return self.made[name]

    def __contains__(self, name: object) -> bool:
        return name in PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


def _made(name: str, place: Place) -> Any:
    panel, home, *how = place
    module, _, attribute = home.partition(":")
    given = getattr(import_module(module), attribute)
    group = new_group("", "")
    if isinstance(given, typer.Typer):
        group.add_typer(given, rich_help_panel=panel)
    else:
        add(group, given, name, panel, *how)
    return typer.main.get_group(group).commands[name]
