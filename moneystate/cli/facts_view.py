"""Formats the facts of a state for people, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.ports import state
from moneystate.ports.state import Field
from moneystate.savepoint.compare import Difference

LEAST_TIME_MS = 10**10  # smaller numbers are no times of any event
TEXT_CHARACTERS = 60


def time_text(ms: int) -> str:
    return state.time_text(ms) or ("none yet" if ms == NO_TIME else "the end of time")


def time_ms(ms: int) -> dict[str, int | None]:
    """The watermark for JSON; null where there is none or the job is drained."""
    return {"watermark_ms": None if ms in (NO_TIME, END_OF_TIME) else ms}


def field_text(field: Field) -> str:
    if field is None:
        return "-"
    if isinstance(field, int):
        return time_text(field) if abs(field) >= LEAST_TIME_MS else str(field)
    try:
        text = field.decode()
    except UnicodeDecodeError:
        text = field.hex()
    if not text.isprintable():
        text = field.hex()
    return text if len(text) <= TEXT_CHARACTERS else text[: TEXT_CHARACTERS - 1] + "…"


def fields_text(fields: tuple[Field, ...] | None) -> str:
    if fields is None:
        return "missing"
    return " ".join(field_text(field) for field in fields) or "there"


def differences(listed: list[Difference], one: str, other: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("user", "what", "which", one, other):
        table.add_column(name, overflow="fold")
    for d in listed:
        cells = (
            field_text(d.user),
            d.kind,
            fields_text(d.id) if d.id else "",
            fields_text(d.one),
            fields_text(d.other),
        )
        table.add_row(*[Text(cell) for cell in cells])
    return table


def as_json(d: Difference) -> dict[str, Any]:
    return {
        "user": field_text(d.user),
        "kind": d.kind,
        "id": [_json(field) for field in d.id],
        "one": None if d.one is None else [_json(field) for field in d.one],
        "other": None if d.other is None else [_json(field) for field in d.other],
    }


def _json(field: Field) -> Any:
    return field if field is None or isinstance(field, int) else field_text(field)
