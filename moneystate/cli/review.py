"""Reviews a bootstrap's state before it becomes a savepoint: counts, some keys, differences from a live state."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import typer
from rich.console import Console
from rich.table import Table

from moneystate.bootstrap.job import Prepared
from moneystate.cli import facts_view
from moneystate.cli.tables import print_table
from moneystate.errors import ConfigError
from moneystate.ports.state import Fact, StateModel
from moneystate.savepoint.compare import compare
from moneystate.savepoint.facts import facts
from moneystate.savepoint.format import Savepoint
from state_tools.export import open_checkpoint
from state_tools.offline import is_savepoint, open_state

SAMPLE_KEYS = 3
DIFFERENCES = 20
COUNTS = ("waiting", "looking_up", "duplicates", "late")


def check_review(checkpoint: str, yes: bool) -> None:
    """Checks before the work starts. Raises ConfigError if nobody can be asked, and CheckpointError if there is no
    checkpoint."""
    if not yes and not sys.stderr.isatty():
        raise ConfigError("--review: expected a terminal to ask on, found none.", "add --yes.")
    if checkpoint and not is_savepoint(checkpoint):
        open_checkpoint(checkpoint)


def review(state: StateModel, prepared: Prepared, checkpoint: str, yes: bool) -> bool:
    """Shows the review, and returns whether to make the savepoint."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(_numbers(prepared))
    console.print(f"fingerprint {prepared.savepoint.manifest.fingerprint}")
    _print_sample(console, state, prepared.savepoint)
    if checkpoint:
        with open_state(state, checkpoint) as live:
            comparison = compare(state, prepared.savepoint, live, DIFFERENCES)
        facts_view.print_differences(console, state, comparison.first, "the bootstrap", "the live state")
        console.print(
            f"{comparison.total:,} differences from {checkpoint}" if comparison.total else f"the same as {checkpoint}"
        )
    return yes or typer.confirm("Make the savepoint?", err=True)


def _numbers(prepared: Prepared) -> Table:
    m = prepared.savepoint.manifest
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows = [("records", prepared.records), ("keys", prepared.keys), ("buffered", prepared.buffered)]
    rows += [(name.replace("_", " "), m.counts.get(name, 0)) for name in COUNTS]
    rows += [(f"state: {kind}", n) for kind, n in sorted(prepared.facts.items())]
    for name, n in rows:
        table.add_row(name, f"{n:,}")
    table.add_row("watermark", facts_view.time_text(m.watermark))
    return table


def _print_sample(console: Console, state: StateModel, savepoint: Savepoint) -> None:
    """Shows the first keys of the first key group that has any: the facts about each, by kind."""
    rows: list[list[str]] = []
    for key, facts_of_key in _keys(state, savepoint):
        by_kind: dict[str, list[Fact]] = {}
        for fact in facts_of_key:
            by_kind.setdefault(fact.kind, []).append(fact)
        for kind, facts_of_it in by_kind.items():
            first = facts_of_it[0]
            id = " ".join(map(facts_view.whole_text, first.id))
            example = f"{id} {facts_view.content_text(state, kind, first.content)}".strip()
            rows.append([facts_view.whole_text(key), kind, f"{len(facts_of_it):,}", example])
    print_table(console, ["key", "what", "how many", "for example"], rows, right=["how many"])


def _keys(state: StateModel, savepoint: Savepoint) -> Iterator[tuple[bytes, list[Fact]]]:
    manifest = savepoint.manifest
    for group in range(manifest.key_groups):
        by_key: dict[bytes, list[Fact]] = {}
        for fact in facts(savepoint.entries(group), state, manifest.rules, with_clock=False):
            if fact.key:
                by_key.setdefault(fact.key, []).append(fact)
        if by_key:
            yield from [(key, by_key[key]) for key in sorted(by_key)[:SAMPLE_KEYS]]
            return
