"""`moneystate plan`: shows what a deployment would change, for a person to approve. Exit codes: 0 it can start, 1 it
would be refused.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from moneystate.cli.option import PATH, Panel, flagged, option
from moneystate.cli.options import Json
from moneystate.cli.service_jobs import Prepared, prepare
from moneystate.cli.tables import Cell, print_table
from moneystate.engine.inputs import Inputs
from moneystate.errors import ConfigError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.deployment import JobChange, changes
from moneystate.job.startup import settings_of
from moneystate.job.storage.savepoints import manifest_of
from moneystate.kafka.client import admin_client
from moneystate.kafka.topics import partition_counts

REFUSED_EXIT_CODE = 1
MOST_TEXT = 60  # characters of a value in the table


def plan_services(
    prepared: list[Prepared],
    save: Annotated[Path | None, option("save", "File to write, for `run --approved`.", Panel.output, PATH)] = None,
    json_output: Json = False,
) -> None:
    """Show what `run` with the same arguments would change.

    It shows changes of rules, inputs, topics, schemas and state, and changes nothing itself. With --save, `run
    --approved FILE` refuses to start if it would change anything else.
    """
    planned = _planned(prepared)
    if save is not None:
        save.write_text(json.dumps(_as_json(planned), indent=2, sort_keys=True) + "\n")
    if json_output:
        typer.echo(json.dumps(_as_json(planned)))
    else:
        _show(planned)
        for one in prepared:
            _show_staying(one)
    if any(change.refused for mine in planned.values() for change in mine):
        raise typer.Exit(REFUSED_EXIT_CODE)


plan = flagged(plan_services, "prepared", prepare)


def check_approved(file: Path, prepared: list[Prepared]) -> None:
    """Raises ConfigError if a start would make a change that is not in `file`. Changes in the file that are already
    made are fine, so that a job can be started again with the same file."""
    save = f"moneystate plan --save {shlex.quote(str(file))}"
    do = f"run {save} with the services and flags of this run, and approve that."
    try:
        approved = json.loads(file.read_bytes())
    except (OSError, ValueError) as e:
        raise ConfigError(f"--approved {file}: expected a file of moneystate plan --save, but {e}.", do) from None
    if not isinstance(approved, dict) or not all(isinstance(mine, list) for mine in approved.values()):
        raise ConfigError(f"--approved {file}: expected a file of moneystate plan --save, found other JSON.", do)
    different = _difference(approved, json.loads(json.dumps(_as_json(_planned(prepared)))))
    if not different:
        return
    raise ConfigError(f"--approved {file}: expected to change what was approved, but {different} differs.", do)


def _difference(approved: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first change that is not approved; empty: all are."""
    for service, mine in now.items():
        if service not in approved:
            return f"the service {service}"
        for change in mine:
            if change not in approved[service]:
                return f"{service}: {change['part']} {change['name']}"
    return ""


def _planned(prepared: list[Prepared]) -> dict[str, list[JobChange]]:
    return {one.spec.name: [*_of_checkpoint(one), *_of_topics(one)] for one in prepared}


def _of_checkpoint(one: Prepared) -> list[JobChange]:
    o = one.options.named(one.spec)
    settings = settings_of(one.spec.name, o.key_groups, o.partitions, o.application(), o.topic_prefix, o.local)
    checkpoint = Checkpoint(o.checkpoint)
    begins = checkpoint.is_new() and o.initial_state
    savepoint = manifest_of(o.initial_state, "--initial-state") if begins else None
    return changes(one.spec, settings, checkpoint, savepoint, o.drain_until_ms)


def _of_topics(one: Prepared) -> list[JobChange]:
    """The topics that the start would create."""
    o = one.options
    there = partition_counts(admin_client(o.bootstrap_servers, o.kafka_config))
    names = [*Inputs(one.spec.inputs).named, *one.spec.streams, one.spec.changelog, one.spec.commits]
    missing = [name for name in dict.fromkeys(names) if o.topic_prefix + name not in there]
    effect = "is created" if o.create_topics else "missing, and --no-create-topics is given"
    return [JobChange("topic", o.topic_prefix + name, None, "new", effect, not o.create_topics) for name in missing]


def _as_json(planned: dict[str, list[JobChange]]) -> dict[str, Any]:
    return {service: [change._asdict() for change in mine] for service, mine in planned.items()}


def _show(planned: dict[str, list[JobChange]]) -> None:
    console = Console(highlight=False)
    for service, mine in planned.items():
        if not mine:
            console.print(f"{service}: nothing changes")
            continue
        rows: list[list[Cell]] = [
            [_mark(change), f"{change.part} {change.name}", _text(change.before), _text(change.after), change.effect]
            for change in mine
        ]
        print_table(console, ["", service, "before", "after", "effect"], rows)


def _show_staying(one: Prepared) -> None:
    for name, (value, declared) in one.stay.items():
        typer.echo(
            f"{one.spec.name}: rule {name} stays {_text(value)} as in the checkpoint; declared: {_text(declared)}"
        )


def _mark(change: JobChange) -> Text:
    return Text("NO", "red") if change.refused else Text("~", "yellow")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}..."
