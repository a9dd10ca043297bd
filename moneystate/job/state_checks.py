"""Which entries the state of a checkpoint or savepoint may have that a program cannot read. `plan`, `doctor` and the
start decide by this function alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from moneystate.errors import CheckpointError
from moneystate.ports.service import STATE_SCHEMAS, TIMER_STATE, TOPICS, UNIQUE_STATE, JobSpec


class Unreadable(NamedTuple):
    """Entries that the program cannot read."""

    state: str  # kind and name
    schemas: list[str]  # in hex
    why: str
    do: str


def unreadable(spec: JobSpec, before: Mapping[str, Any]) -> list[Unreadable]:
    """`before`: the rules of the last batch. A program of before did not record the schemas: then nothing is known of
    records."""
    problems = []
    for state, schemas in sorted((before.get(STATE_SCHEMAS) or {}).items()):
        if state.startswith((TIMER_STATE, UNIQUE_STATE)):
            continue
        readable = spec.readable.get(state)
        if readable is None:
            why = "the state may have its entries, and no longer declared, nobody could read or move them"
            problems.append(
                Unreadable(state, schemas, why, f"declare the {state} as before; no function has to use it.")
            )
        elif unknown := sorted({*schemas} - {*readable}):
            why = f"the state may have entries of {', '.join(unknown)}, which no version of its record reads"
            do = "restore the name of the record and its @ms.upgrade functions, or start the earlier program."
            problems.append(Unreadable(state, unknown, why, do))
    return [*problems, *_ids_of_before(spec, before)]


def _ids_of_before(spec: JobSpec, before: Mapping[str, Any]) -> list[Unreadable]:
    """Ids that `unique` has seen, in the form of earlier programs: one entry for each."""
    known = before.get(STATE_SCHEMAS) or {}
    why = "an earlier program stored each id by itself, so this one would take repetitions of them for new records"
    do = "bootstrap a new checkpoint from the logs, or start the earlier program."
    return [
        Unreadable(state, [], why, do)
        for state in spec.readable
        if state.startswith(UNIQUE_STATE) and state not in known
        and state.removeprefix(UNIQUE_STATE) in before.get(TOPICS, {})
    ]  # fmt: skip


def check_readable(spec: JobSpec, before: Mapping[str, Any], where: str) -> None:
    """Raises CheckpointError."""
    for one in unreadable(spec, before):
        raise CheckpointError(
            f"{where}: {one.state}: expected a program that reads its entries, but {one.why}.", one.do
        )
