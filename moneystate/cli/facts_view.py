"""Formats the facts of a state for people, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from moneystate.cli.tables import print_table
from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.ports import state
from moneystate.ports.state import Field
from moneystate.savepoint.compare import Difference

LEAST_TIME_MS = 10**10  # smaller numbers are not event times
TEXT_CHARACTERS = 60


def time_text(ms: int) -> str:
    return state.time_text(ms) or ("none yet" if ms == NO_TIME else "the end of time")


def time_ms(ms: int) -> dict[str, int | None]:
    """The watermark for JSON; null: there is none, or the job is drained."""
    return {"watermark_ms": None if ms in (NO_TIME, END_OF_TIME) else ms}


def field_text(field: Field) -> str:
    """The text of a value, cut off if it is long."""
    text = whole_text(field)
    return text if len(text) <= TEXT_CHARACTERS else text[: TEXT_CHARACTERS - 1] + "…"


def whole_text(field: Field) -> str:
    """The text of an id, never cut off."""
    if field is None:
        return "-"
    if isinstance(field, int):
        return time_text(field) if abs(field) >= LEAST_TIME_MS else str(field)
    try:
        text = field.decode()
    except UnicodeDecodeError:
        text = field.hex()
    return text if text.isprintable() else field.hex()


def fields_text(fields: tuple[Field, ...] | None) -> str:
    if fields is None:
        return "missing"
    return " ".join(field_text(field) for field in fields) or "there"


def print_differences(console: Console, listed: list[Difference], one: str, other: str) -> None:
    rows = [
        [whole_text(d.user), d.kind, " ".join(map(whole_text, d.id)), fields_text(d.one), fields_text(d.other)]
        for d in listed
    ]
    print_table(console, ["user", "what", "which", one, other], rows)


def as_json(d: Difference) -> dict[str, Any]:
    return {
        "user": whole_text(d.user),
        "kind": d.kind,
        "id": [_json(field) for field in d.id],
        "one": None if d.one is None else [_json(field) for field in d.one],
        "other": None if d.other is None else [_json(field) for field in d.other],
    }


def _json(field: Field) -> Any:
    return field if field is None or isinstance(field, int) else whole_text(field)
