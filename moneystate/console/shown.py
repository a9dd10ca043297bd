"""JSON values as cells of tables. What is very large is cut, and says so: a page stays small whatever a record has."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from moneystate.records import exact_json

MOST_TEXT: Final = 2_000  # characters of a value
MOST_IN_ROW: Final = 300  # characters of a list or an object in a table of several rows
MOST_JSON: Final = 20_000  # characters of a whole record or result
MOST_FIELDS: Final = 200
MOST_ROWS: Final = 500
MOST_CELLS: Final = 2_500  # of a table: a row has up to MOST_FIELDS of them
MOST_NAME: Final = 200  # characters of a field's name, a key or an id
MOST_TABLE: Final = 60_000  # characters of all values of a table
LEAST: Final = 20  # characters of a value, however many there are
LEAST_ROWS: Final = 5
MASKED: Final = "(masked)"
TOO_DEEP: Final = "(nested too deeply to be shown)"


@dataclass(frozen=True)
class Cell:
    """`kind`: a class for its look: text, number, null, masked or json; `cut`: how many characters are not shown."""

    text: str
    kind: str = "text"
    cut: int = 0


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    more_columns: int = 0
    more_rows: int = 0


def cell(value: Any, masked: bool = False, most: int = MOST_TEXT) -> Cell:
    if masked:
        return Cell(MASKED, "masked")
    if value is None:
        return Cell("null", "null")
    if isinstance(value, str):
        return _cut(value, "text", most)
    return _cut(_json(value), "json" if isinstance(value, (dict, list)) else "number", most)


def name_cell(text: str) -> Cell:
    """The name of a field, a key or an id, which can be as long as a record."""
    return _cut(text, "text", MOST_NAME)


def field_of(record: Mapping[str, Any], name: str, masked: bool = False, most: int = MOST_TEXT) -> Cell:
    """Empty if the record does not have it."""
    return cell(record[name], masked, most) if name in record else Cell("", "null")


def _cut(text: str, kind: str, most: int) -> Cell:
    return Cell(text[:most], kind, max(0, len(text) - most))


def fields(record: Mapping[str, Any], masked: Sequence[str] = ()) -> Table:
    """A record, one row for each field."""
    names = list(record)
    rows = [(name_cell(name), cell(record[name], name in masked)) for name in names[:MOST_FIELDS]]
    return fitted(Table(("field", "value"), rows, more_rows=max(0, len(names) - MOST_FIELDS)))


def table(value: Any, most: int = MOST_IN_ROW) -> Table:
    """The result of a query: a row for each item of a list, and a column for each field; of one object a row for each
    field. `most`: characters of a value in a row."""
    if isinstance(value, dict):
        return fields(value)
    items = value if isinstance(value, list) else [value]
    shown = items[:MOST_ROWS]
    if not all(isinstance(item, dict) for item in shown):
        return fitted(Table(("value",), [(cell(item),) for item in shown], more_rows=len(items) - len(shown)))
    names = list(dict.fromkeys(name for item in shown for name in item))
    columns = names[:MOST_FIELDS]
    shown = shown[: MOST_CELLS // max(1, len(columns))]
    rows = [[field_of(item, name, most=most) for name in columns] for item in shown]
    heads = [name_cell(name).text for name in columns]
    return fitted(Table(heads, rows, len(names) - len(columns), len(items) - len(shown)))


def fitted(its: Table, tables: int = 1) -> Table:
    """The table with its longest values cut so far that all of them fit on a page, which has as many `tables`."""
    rows = its.rows[: max(LEAST_ROWS, MOST_CELLS // max(1, len(its.columns)) // tables)]
    most = _fitting([len(one.text) for row in rows for one in row], MOST_TABLE // tables)
    shown = [[_shorter(one, most) for one in row] for row in rows]
    return replace(its, rows=shown, more_rows=its.more_rows + len(its.rows) - len(rows))


def _fitting(lengths: Sequence[int], left: int) -> int:
    """Returns how many characters each text may have, so that all together have at most `left`."""
    ascending = sorted(lengths)
    for place, length in enumerate(ascending):
        share = left // (len(ascending) - place)
        if length > share:
            return max(LEAST, share)
        left -= length
    return max(ascending, default=LEAST)


def _shorter(one: Cell, most: int) -> Cell:
    return one if len(one.text) <= most else replace(one, text=one.text[:most], cut=one.cut + len(one.text) - most)


def differences(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, heads: tuple[str, str] = ("before", "after"),
    masked: Collection[str] = (),
) -> Table:  # fmt: skip
    """The fields that differ between two records. None: there was no record. `heads`: what the two are called.
    `masked`: fields whose values are hidden."""
    old, new = before or {}, after or {}
    names = [name for name in dict.fromkeys([*old, *new]) if _text(old, name) != _text(new, name)]
    rows = [
        (name_cell(name), field_of(old, name, name in masked), field_of(new, name, name in masked))
        for name in names[:MOST_FIELDS]
    ]
    return fitted(Table(("field", *heads), rows, more_rows=max(0, len(names) - MOST_FIELDS)))


def _text(record: Mapping[str, Any], name: str) -> str | None:
    return _json(record[name]) if name in record else None


def _json(value: Any) -> str:
    try:
        return exact_json.dumps(value)
    except RecursionError:
        return TOO_DEEP


def json_of(text: str) -> Any:
    """A JSON text. One that Python cannot read stays a text: nested too deeply, or a number of too many digits."""
    try:
        return exact_json.loads(text)
    except (ValueError, RecursionError):
        return text


def whole(text: str) -> Cell:
    """A JSON text to read as a whole, as far as a page can have it."""
    return _cut(pretty(text), "json", MOST_JSON)


def pretty(text: str) -> str:
    """JSON with line ends; any other text as it is. Numbers stay as they are written."""
    try:
        value = exact_json.loads(text)
        return json.dumps(value, indent=2, ensure_ascii=False, default=str) if _is_plain(value) else text
    except (ValueError, RecursionError):
        return text


def _is_plain(value: Any) -> bool:
    """Whether the standard library writes its numbers as they were."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or type(value) in (str, bool, int)
