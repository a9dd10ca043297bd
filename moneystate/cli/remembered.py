"""What a start leaves out is as its checkpoint, or the savepoint that it begins with, has it: rules, key groups and
partitions. A flag, a variable or a configuration file gives another value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import typer

from moneystate.errors import ConfigError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.deployment import changes
from moneystate.job.run_options import RunOptions
from moneystate.job.startup import settings_of
from moneystate.job.storage.savepoints import manifest_of
from moneystate.log import get_log
from moneystate.ports.service import JobSpec

LOG = get_log(__name__)


class Before(NamedTuple):
    """Holds what a start continues."""

    where: str  # for errors; empty: it starts from nothing
    rules: Mapping[str, Any]
    settings: Mapping[str, Any]


class Note(NamedTuple):
    """A line of the log."""

    event: str
    about: dict[str, Any]


def is_given(context: typer.Context, option: str) -> bool:
    """Whether a flag, a variable or a configuration file gives the option."""
    source = context.get_parameter_source(option)
    return source is None or source.name != "DEFAULT"


def before(options: RunOptions) -> Before:
    checkpoint = Checkpoint(options.checkpoint)
    if not checkpoint.is_new():
        return Before(str(checkpoint.root), checkpoint.latest_rules(), checkpoint.settings())
    if options.initial_state:
        manifest = manifest_of(options.initial_state, "--initial-state")
        settings = {"key_groups": manifest.key_groups, "partitions": manifest.partitions}
        return Before(options.initial_state, manifest.rules, settings)
    return Before("", {}, {})


def with_settings(context: typer.Context, options: RunOptions, earlier: Before) -> RunOptions:
    """Raises ConfigError."""
    left_out = {
        name: earlier.settings[name]
        for name in ("key_groups", "partitions")
        if name in earlier.settings and not is_given(context, name)
    }
    completed = replace(options, **left_out)
    if completed.partitions > completed.key_groups:
        raise ConfigError(
            f"--partitions {completed.partitions}: expected no more than the {completed.key_groups} key groups.",
            "raise --key-groups, or give fewer partitions.",
        )
    return completed


def left_out(context: typer.Context, rules: Mapping[str, str], earlier: Before) -> dict[str, Any]:
    """The earlier values of rules that are not given. `rules`: the option of each."""
    return {
        rule: earlier.rules[rule]
        for rule, option in rules.items()
        if rule in earlier.rules and not is_given(context, option)
    }


def notes_of(spec: JobSpec, options: RunOptions, stay: Mapping[str, tuple[Any, Any]]) -> list[Note]:
    """Returns what a start changes, and which rules stay as they are although the service declares another value
    now."""
    checkpoint = Checkpoint(options.checkpoint)
    o = options.named(spec)
    settings = settings_of(spec.name, o.key_groups, o.partitions, o.application(), o.topic_prefix, o.local)
    changed = [] if checkpoint.is_new() or o.finish_batch else changes(spec, settings, checkpoint)
    notes = [
        Note(f"{c.part} {c.name} changes", {"before": c.before, "after": c.after, "effect": c.effect}) for c in changed
    ]
    return notes + [
        Note(f"rule {name} stays as in the checkpoint", {"value": value, "declared": declared})
        for name, (value, declared) in stay.items()
    ]


def telling(started: Callable[[int, str], None], notes: list[Note]) -> Callable[[int, str], None]:
    """`started`, and then the notes in the log: a start that is refused has only its error to tell."""

    def on_start(batch: int, epoch: str) -> None:
        started(batch, epoch)
        for note in notes:
            LOG.info(note.event, **note.about)

    return on_start
