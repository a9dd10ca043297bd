"""Formats the facts of a state for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import typer
from rich.console import Console

from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.ports import state
from moneystate.ports.state import Field, Row, StateModel
from moneystate.records import exact_json
from moneystate.savepoint.compare import Comparison, Difference

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


def print_differences(console: Console, state: StateModel, listed: list[Difference], one: str, other: str) -> None:
    """Shows the differences in the service's terms, by key. `one` and `other`: names of the states, such as `the
    replay`."""
    by_key: dict[bytes, list[Difference]] = {}
    for difference in listed:
        by_key.setdefault(difference.key, []).append(difference)
    for key, mine in sorted(by_key.items()):
        console.print(f"key {whole_text(key)}" if key else "all keys")
        for difference in mine:
            id = " ".join(map(whole_text, difference.id))
            title = " ".join(filter(None, [difference.kind, id]))
            console.print(f"  {title}: {what_differs(state, difference, one, other)}")


def tell_comparison(
    state: StateModel, result: Comparison, places: tuple[str, str], json_output: bool, compared: str,
    about: Mapping[str, Any] | None = None, notes: Iterable[str] = (),
) -> None:  # fmt: skip
    """`compared`: what of the two states. `about`: more for JSON, `notes` for people."""
    if json_output:
        first = [as_json(state, d) for d in result.first]
        typer.echo(exact_json.dumps({"differences": result.total, "first": first, **(about or {})}))
        return
    console = Console(soft_wrap=True, highlight=False, markup=False)
    print_differences(console, state, result.first, *places)
    for note in notes:
        console.print(note)
    console.print(f"{result.total:,} differences" if result.total else f"the same {compared}")


def what_differs(state: StateModel, d: Difference, one: str, other: str) -> str:
    was, now = _view(state, d.kind, d.one), _view(state, d.kind, d.other)
    if d.one is None or d.other is None:
        name, view, fields = (other, now, d.other) if d.one is None else (one, was, d.one)
        return f"only in {name}: {fields_text(fields) if view is None else _text(view)}"
    if was is None or now is None or was == now:
        return f"{fields_text(d.one)} in {one}, {fields_text(d.other)} in {other}"
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return ", ".join(f"{name} {_text(was.get(name))} in {one}, {_text(now.get(name))} in {other}" for name in names)


def _view(state: StateModel, kind: str, content: tuple[Field, ...] | None) -> Row | None:
    return None if content is None else state.fact_view(kind, content)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else exact_json.dumps(value)


def as_json(state: StateModel, d: Difference) -> dict[str, Any]:
    return {
        "key": whole_text(d.key),
        "kind": d.kind,
        "id": [_json(field) for field in d.id],
        "one": None if d.one is None else [_json(field) for field in d.one],
        "other": None if d.other is None else [_json(field) for field in d.other],
        "one_record": _view(state, d.kind, d.one),
        "other_record": _view(state, d.kind, d.other),
    }


def content_text(state: StateModel, kind: str, content: tuple[Field, ...]) -> str:
    """The content of a fact in the service's terms."""
    view = _view(state, kind, content)
    return fields_text(content) if view is None else _text(view)


def _json(field: Field) -> Any:
    return field if field is None or isinstance(field, int) else whole_text(field)
