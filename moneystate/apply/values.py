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
import struct
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from moneystate.api import iso_time
from moneystate.api.exact_json import dumps
from moneystate.api.json_number import Number
from moneystate.apply.column_types import INTEGERS, TEXTS, ColumnType
from moneystate.engine.avro import Malformed

Writer = Callable[[Any], str]

NUL: Final = "\x00"
FIRST_MS: Final = -210_866_803_200_000  # 4713 BC, where PostgreSQL's times begin
END_MS: Final = 9_224_318_016_000_000  # the year 294277, where they end
DAY_MS: Final = 86_400_000
_ISO_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_MOST_DIGITS: Final = 131_072 + 16_383  # of a numeric


class BadValue(Exception):
    """A value that the column cannot hold as it is. Its text has no part of the value."""


class Time(int):
    """Milliseconds since the epoch."""


class Day(int):
    """Days since the epoch."""


class Unitless(Number):
    """A number that may be a time of an unknown unit."""


class _Kept:
    """The column keeps what it has: the database did not log its value."""

    def __repr__(self) -> str:
        return "KEPT"


KEPT: Final = _Kept()


def writer_for(kind: ColumnType, remove_nul: bool) -> Writer:
    """How values are written for a column of this type."""
    if kind.item is not None:
        return _array(kind, writer_for(kind.item, remove_nul), remove_nul)
    if kind.name in INTEGERS:
        return _integer(INTEGERS[kind.name])
    if kind.name == "numeric":
        return _numeric(kind.precision, kind.scale)
    if kind.labels is not None:
        return _one_of(kind.labels)
    if kind.name in TEXTS:
        return _text(kind, remove_nul)
    if kind.name in ("timestamptz", "timestamp"):
        return _time(kind)
    if kind.name in ("json", "jsonb"):
        return lambda value: _without_nul(_json(value), remove_nul, kind.name)
    return _WRITERS.get(kind.name) or _other(remove_nul)


def number_of(value: Any) -> Decimal:
    """The number, exactly. Raises BadValue."""
    if type(value) is bool:
        raise BadValue("not a number")
    if isinstance(value, Number):
        try:
            return Decimal(value)
        except InvalidOperation:
            raise BadValue("a number beyond all bounds") from None
    if isinstance(value, int | Decimal):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(value))  # the shortest decimal that is this float
    raise BadValue("not a number")


def _integer(bits: int) -> Writer:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def write(value: Any) -> str:
        if type(value) is not int:
            value = value if isinstance(value, int) and type(value) is not bool else _whole(value)
        if not low <= value <= high:
            raise BadValue(f"not within {bits} bits")
        return str(int(value))

    return write


def _whole(value: Any) -> int:
    if type(value) is Number and len(value) < 20 and value.lstrip("-").isdigit():
        return int(value)
    number = number_of(value)
    if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
        raise BadValue("not a whole number of 64 bits")
    return int(number)


def _numeric(precision: int | None, scale: int | None) -> Writer:
    def write(value: Any) -> str:
        number = number_of(value)
        if not number.is_finite():
            raise BadValue("not a finite number")
        _, digits, exponent = number.as_tuple()
        text = "".join(map(str, digits)).rstrip("0")
        if not text:
            return "0"
        places = -(int(exponent) + len(digits) - len(text))  # of the last digit other than zero
        whole = len(text) - places
        if precision is not None and places > (scale or 0):
            raise BadValue(f"more than {scale or 0} decimal places")
        if precision is not None and whole > precision - (scale or 0):
            raise BadValue(f"more than {precision - (scale or 0)} digits before the decimal point")
        if max(whole, 0) + max(places, 0) > _MOST_DIGITS:
            raise BadValue("a number beyond all bounds")
        return format(number, "f")

    return write


def _double(value: Any) -> str:
    number = number_of(value)
    if number.is_nan():
        return "NaN"
    nearest = float(number)
    if number.is_infinite():
        return "Infinity" if nearest > 0 else "-Infinity"
    if not math.isfinite(nearest) or Decimal(repr(nearest)) != number:
        raise BadValue("a number that a double cannot hold exactly")
    return repr(nearest)


def _single(value: Any) -> str:
    number = number_of(value)
    if not number.is_finite():
        return _double(value)
    try:
        nearest: float = struct.unpack("f", struct.pack("f", float(number)))[0]
    except OverflowError:
        raise BadValue("a number that a real cannot hold") from None
    # an Avro float arrives as the double that it is; a decimal as the shortest text of such a float
    if Decimal(nearest) != number and all(Decimal(f"{nearest:.{digits}g}") != number for digits in range(6, 10)):
        raise BadValue("a number that a real cannot hold exactly")
    return f"{nearest:.9g}"


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
        return _Written(value)
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


class _Written(Decimal):
    """A JSON number whose text is kept."""

    text: str

    def __new__(cls, text: str) -> _Written:
        made = super().__new__(cls, 0)
        made.text = str(text)
        return made

    def __str__(self) -> str:
        return self.text


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


def ms_of(value: Any) -> int:
    """A point in time: milliseconds, or ISO-8601 text with an offset, whose further digits are dropped, as everywhere
    on the platform. Raises BadValue."""
    if isinstance(value, Unitless):
        raise BadValue("a time as a number needs the schema, which has its unit; let the converter write schemas")
    if isinstance(value, Day):
        return value * DAY_MS
    if isinstance(value, int | Number) and type(value) is not bool:
        return _whole(value)
    if type(value) is not str:
        raise BadValue("not a point in time")
    try:
        return iso_time.to_ms(value)
    except Malformed as e:
        raise BadValue(str(e)) from None


def _time(kind: ColumnType) -> Writer:
    """A column of fewer digits than milliseconds takes the times that it can hold: PostgreSQL would round others."""
    unit = 10 ** (3 - min(3, 6 if kind.scale is None else kind.scale))
    zone = "Z" if kind.name == "timestamptz" else ""

    def write(value: Any) -> str:
        ms = ms_of(value)
        if ms % unit:
            raise BadValue(f"a time finer than {kind.scale} digits of a second")
        return _timestamp(ms).replace("Z", zone)

    return write


def _timestamp(ms: int) -> str:
    if not FIRST_MS <= ms < END_MS:
        raise BadValue("a time that PostgreSQL cannot store")
    text = iso_time.from_ms(ms)
    return text if text[0] not in "+-" and text[:4] != "0000" else _far(text)


def _far(text: str) -> str:
    """A time outside the years 1 to 9999, as PostgreSQL reads it: the year 0 is 1 BC."""
    year_end = text.index("-", 1)
    year = int(text[:year_end])
    return f"{year:04d}{text[year_end:]}" if year > 0 else f"{1 - year:04d}{text[year_end:]} BC"


def _date(value: Any) -> str:
    if type(value) is str:
        if not _ISO_DAY.fullmatch(value):
            raise BadValue("not a date such as 2026-01-31")
        return value
    if isinstance(value, Day):
        return _timestamp(value * DAY_MS)[:10] if -719_162 <= value <= 2_932_896 else _far_day(value)
    if isinstance(value, Time) and value % DAY_MS == 0:
        return _date(Day(value // DAY_MS))
    raise BadValue("not a date")


def _far_day(day: int) -> str:
    text = _timestamp(day * DAY_MS)
    date, _, rest = text.partition("T")
    return f"{date} BC" if rest.endswith("BC") else date


def _uuid(value: Any) -> str:
    if type(value) is not str or not _UUID.fullmatch(value):
        raise BadValue("not a UUID")
    return value


def _other(remove_nul: bool) -> Writer:
    """Of types that only the database can check."""

    def write(value: Any) -> str:
        text = _as_text(value)
        return _encodable(_without_nul(text, remove_nul, "text") if NUL in text else text)

    return write


def _array(kind: ColumnType, write_item: Writer, remove_nul: bool) -> Writer:
    quote = kind.item is not None and kind.item.name not in (*INTEGERS, "numeric", "float4", "float8", "bool")

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
    "float8": _double,
    "float4": _single,
    "bool": _boolean,
    "bytea": _bytes,
    "date": _date,
    "uuid": _uuid,
}

_SPECIAL: Final = re.compile(r"[\\\t\n\r]")  # a search costs a tenth of a translation
_COPY: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def copy_line(texts: Iterable[str | None]) -> str:
    """A row in the text format of COPY."""
    return "\t".join(["\\N" if text is None else _escaped(text) for text in texts]) + "\n"


def _escaped(text: str) -> str:
    return text.translate(_COPY) if _SPECIAL.search(text) else text
