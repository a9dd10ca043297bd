"""Values as PostgreSQL reads them from text: nothing is rounded, cut off or reinterpreted on the way.

A value is what a record has: None, bool, int, float, Decimal, str, bytes, a list, a dict, a `Number` (a number as its
JSON text has it), a `Time` (milliseconds since the epoch) or a `Day`. A writer turns a value other than None into text,
or raises BadValue, which names what was expected and never the value.

PostgreSQL itself rounds decimals to a column's scale and times to its precision without a word. So both are checked
here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

from moneystate.apply import number_values, time_values
from moneystate.apply.column_types import INTEGERS, TEXTS, ColumnType
from moneystate.apply.value_types import DAY_MS, BadValue, Day, Time, Written
from moneystate.records import iso_time
from moneystate.records.exact_json import dumps
from moneystate.records.json_number import Number

Writer = Callable[[Any], str]

NUL: Final = "\x00"
UNQUOTED: Final = frozenset([*INTEGERS, "numeric", "float4", "float8", "bool"])  # items of arrays
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def writer_for(kind: ColumnType, remove_nul: bool) -> Writer:
    """Returns how values are written for a column of this type."""
    if kind.item is not None:
        return _array(kind, writer_for(kind.item, remove_nul), remove_nul)
    if kind.name in INTEGERS:
        return number_values.integer(INTEGERS[kind.name])
    if kind.name == "numeric":
        return number_values.numeric(kind.precision, kind.scale)
    if kind.labels is not None:
        return _one_of(kind.labels)
    if kind.name in TEXTS:
        return _text(kind, remove_nul)
    if kind.name in ("timestamptz", "timestamp"):
        return time_values.time(kind)
    if kind.name in ("json", "jsonb"):
        return lambda value: _without_nul(_json(value), remove_nul, kind.name)
    return _WRITERS.get(kind.name) or _other(remove_nul)


def _text(kind: ColumnType, remove_nul: bool) -> Writer:
    length = kind.length

    def write(value: Any) -> str:
        text = value if type(value) is str else _as_text(value)
        if NUL in text:
            text = _without_nul(text, remove_nul, "text")
        if length is not None and len(text) > length:
            raise BadValue(f"more than {length} characters")
        return _encodable(text)

    return write


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Time):
        return iso_time.from_ms(value)
    if isinstance(value, Day):
        return iso_time.from_ms(value * DAY_MS)[:-14]
    if type(value) is bytes:
        raise BadValue("bytes where a text is expected")
    return _json(value)


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadValue("a text with half of a surrogate pair") from None
    return text


def _without_nul(text: str, remove: bool, kind: str) -> str:
    """JSON writes NUL as an escape, which a text column keeps and jsonb refuses."""
    forms = (NUL, "\\u0000") if kind == "jsonb" else (NUL,)
    for form in forms:
        if form in text:
            if not remove:
                raise BadValue("a NUL character, which PostgreSQL cannot store")
            text = _cut(text, form)
    return text


def _cut(text: str, form: str) -> str:
    if form == NUL:
        return text.replace(NUL, "")
    # `\\u0000` is an escaped backslash and four zeros
    return re.sub(r"((?:^|[^\\])(?:\\\\)*)(?:\\u0000)+", r"\1", text)


def _json(value: Any) -> str:
    return dumps(_plain(value))


def _plain(value: Any) -> Any:
    """The value for `exact_json`, which writes decimals as they are."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Number):
        return Written(value)
    if isinstance(value, Time | Day):
        return _as_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadValue("not a finite number")
        return Decimal(repr(value))
    return value


def _one_of(labels: tuple[str, ...]) -> Writer:
    known = frozenset(labels)

    def write(value: Any) -> str:
        if type(value) is not str or value not in known:
            raise BadValue(f"none of the labels {', '.join(labels[:10])}")
        return value

    return write


def _boolean(value: Any) -> str:
    if type(value) is not bool:
        raise BadValue("neither true nor false")
    return "true" if value else "false"


def _bytes(value: Any) -> str:
    if type(value) is not bytes:
        raise BadValue("not bytes")
    return "\\x" + value.hex()


def _uuid(value: Any) -> str:
    if type(value) is not str or not _UUID.fullmatch(value):
        raise BadValue("not a UUID")
    return value


def _other(remove_nul: bool) -> Writer:
    """Returns the writer for types that only the database can check."""

    def write(value: Any) -> str:
        text = _as_text(value)
        return _encodable(_without_nul(text, remove_nul, "text") if NUL in text else text)

    return write


def _array(kind: ColumnType, write_item: Writer, remove_nul: bool) -> Writer:
    quote = kind.item is not None and kind.item.name not in UNQUOTED

    def literal(value: Any, level: int) -> str:
        if type(value) is not list or level > 6:
            raise BadValue("not a list of at most 6 dimensions")
        return "{" + ",".join([item(one, level) for one in value]) + "}"

    def item(value: Any, level: int) -> str:
        if value is None:
            return "NULL"
        if type(value) is list:
            return literal(value, level + 1)
        text = write_item(value)
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if quote else text

    return lambda value: literal(value, 1)


_WRITERS: Final[dict[str, Writer]] = {
    "float8": number_values.double,
    "float4": number_values.single,
    "bool": _boolean,
    "bytea": _bytes,
    "date": time_values.date,
    "uuid": _uuid,
}

_SPECIAL: Final = re.compile(r"[\\\t\n\r]")  # a search costs a tenth of a translation
_COPY: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def copy_line(texts: Iterable[str | None]) -> str:
    """A row in the text format of COPY."""
    return "\t".join(["\\N" if text is None else _escaped(text) for text in texts]) + "\n"


def _escaped(text: str) -> str:
    return text.translate(_COPY) if _SPECIAL.search(text) else text
