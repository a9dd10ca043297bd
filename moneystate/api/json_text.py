"""Strict JSON parsing, and the canonical text of any JSON.

The canonical text: members in the code point order of their names, no white space, strings escaped as in RFC 8785,
numbers as they were written. Two texts of one canonical text are the same JSON here, whatever wrote them.

A text does not decode that has a name twice in one object, NaN or Infinity, half of a surrogate pair, more than 100
levels, or a number of more than 1,000 digits: other readers would not agree on what it says. The levels of a record
around it do not count, so that JSON decodes alike in JSON and in Avro.
"""

from __future__ import annotations

import json
import json.encoder
import re
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Any, Final

from moneystate.engine.avro import Malformed

MAX_LEVELS: Final = 100
MAX_RECORD_LEVELS: Final = 2 * MAX_LEVELS  # of a record, with those of the JSON in it, which is checked by itself
MAX_DIGITS: Final = 1_000
_WHITE_SPACE: Final = " \t\n\r"  # JSON's, which is less than Python's
quote = encode_basestring


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class Json:
    """Any JSON, immutable. `text`: its canonical text; equality and hash go by it."""

    __slots__ = ("text",)

    text: str

    def __init__(self, text: str) -> None:
        """Raises ValueError where `text` is not JSON, or one that the module's rules refuse."""
        try:
            text.encode()
            canonical = text if _rewritten(text) is not None else canonical_text(parse(text))
        except (Malformed, UnicodeEncodeError) as e:
            raise ValueError(str(e)) from None
        object.__setattr__(self, "text", canonical)

    @classmethod
    def of(cls, value: Any) -> Json:
        """From Python's objects: dict, list, tuple, str, int, float, Decimal, bool, None and Json."""
        return cls(_render(value, 0))

    def value(self) -> Any:
        """As Python's objects; numbers are int where they are whole, else Decimal. One with an exponent that Decimal
        has no room for, of some 18 digits, is Infinity or 0, as it is to readers that take it for a float."""
        return _plain(parse(self.text))

    def members(self) -> dict[str, Json]:
        """Of an object, in the order of their names; of anything else, none."""
        document = _rewritten(self.text)
        if document is not None:
            return {n: json_as_is(_write(value)) for n, value in document.items()} if type(document) is dict else {}
        parsed = parse(self.text)
        return {n: json_of(value) for n, value in parsed.items()} if type(parsed) is dict else {}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("ms.Json cannot be changed; make another by ms.Json.of(...)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Json({self.text!r})"

    def __reduce__(self) -> tuple[type[Json], tuple[str]]:
        return Json, (self.text,)


def json_of(parsed: Any) -> Json:
    """From what `parse` gave."""
    return json_as_is(canonical_text(parsed))


def json_in_record(parsed: Any) -> Json:
    """The same, of a part of what was parsed as a record. Raises Malformed."""
    text = canonical_text(parsed)
    if text.count("[") + text.count("{") > MAX_LEVELS:
        _check(parsed, 0, MAX_LEVELS)
    return json_as_is(text)


def json_as_is(canonical: str) -> Json:
    """Of a text that is canonical already, and is not looked at again."""
    made = Json.__new__(Json)
    object.__setattr__(made, "text", canonical)
    return made


def json_of_text(text: str) -> Json:
    """Of a text that was read as UTF-8. Raises Malformed."""
    return json_as_is(text) if _rewritten(text) is not None else json_of(parse(text))


def _rewritten(text: str) -> Any:
    """The document, where the standard library reads `text` and writes it again as it is: then it is canonical. None
    says nothing, as numbers such as `1e5` are written otherwise; null, too. Most texts are found so, in half of the
    time of `parse` and `canonical_text`."""
    if text.count("[") + text.count("{") > MAX_LEVELS or (len(text) > MAX_DIGITS and _MANY_DIGITS.search(text)):
        return None
    try:
        document, _ = _scan(text, 0)
        return document if _write(document) == text else None
    except (ValueError, Malformed, RecursionError, StopIteration):
        return None


def _write(document: Any) -> str:
    return "".join(_pieces(document, 0))


def parse(text: str, most: int = MAX_LEVELS) -> Any:
    """The JSON in `text`, numbers as `Number`; `most`: levels. Raises Malformed."""
    try:
        document, end = _DECODER.raw_decode(text.strip(_WHITE_SPACE))
    except json.JSONDecodeError as e:
        raise Malformed(f"not JSON: {e.msg} at character {e.pos}") from None
    except RecursionError:
        raise Malformed(f"more than {most} levels") from None
    if end != len(text.strip(_WHITE_SPACE)):
        raise Malformed("more text after the JSON")
    if text.count("[") + text.count("{") > MAX_LEVELS or "\\u" in text:
        _check(document, 0, most)
    return document


def canonical_text(parsed: Any) -> str:
    """Of what `parse` gave."""
    kind = type(parsed)
    if kind is str:
        return quote(parsed)
    if kind is Number:
        return str(parsed)
    if kind is dict:
        return "{" + ",".join([quote(name) + ":" + canonical_text(parsed[name]) for name in sorted(parsed)]) + "}"
    if kind is list:
        return "[" + ",".join([canonical_text(item) for item in parsed]) + "]"
    return "null" if parsed is None else "true" if parsed else "false"


def _check(parsed: Any, level: int, most: int) -> None:
    """Levels, and texts that are no UTF-8."""
    kind = type(parsed)
    if kind is str:
        try:
            parsed.encode()
        except UnicodeEncodeError:
            raise Malformed("a text with half of a surrogate pair") from None
    elif kind is dict or kind is list:
        if level == most:
            raise Malformed(f"more than {most} levels")
        for item in parsed:
            _check(item, level + 1, most)
        if kind is dict:
            for item in parsed.values():
                _check(item, level + 1, most)


def _plain(parsed: Any) -> Any:
    if isinstance(parsed, Number):
        return int(parsed) if parsed.lstrip("-").isdigit() else _decimal(parsed)
    if isinstance(parsed, dict):
        return {name: _plain(value) for name, value in parsed.items()}
    if isinstance(parsed, list):
        return [_plain(value) for value in parsed]
    return parsed


def _decimal(number: Number) -> Decimal:
    try:
        return Decimal(number)
    except InvalidOperation:
        return Decimal(float(number))


def _render(value: Any, level: int) -> str:
    """Python's objects as a JSON text, which `Json` then checks."""
    if level > MAX_LEVELS:
        raise ValueError(f"more than {MAX_LEVELS} levels")
    if isinstance(value, Json):
        return value.text
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"expected str as the name of a member, found {type(name).__name__}")
        return "{" + ",".join([quote(name) + ":" + _render(item, level + 1) for name, item in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([_render(item, level + 1) for item in value]) + "]"
    if isinstance(value, Decimal):
        return str(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return json.dumps(value, ensure_ascii=False)
    raise TypeError(f"expected a value that JSON has, found {type(value).__name__}")


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) != len(members):
        raise Malformed("a name stands twice in one object")
    return unique


def _number(text: str) -> Number:
    if len(text) > MAX_DIGITS and sum([character.isdigit() for character in text]) > MAX_DIGITS:
        raise Malformed(f"a number of more than {MAX_DIGITS:,} digits")
    return Number(text)


def _no_constant(name: str) -> None:
    raise Malformed(f"{name} is no JSON")


_MANY_DIGITS: Final = re.compile(f"[0-9]{{{MAX_DIGITS + 1}}}")
# The C parts of the standard library, without what it wraps around each call.
_scan: Final[Any] = json.JSONDecoder(parse_constant=_no_constant).scan_once  # type: ignore[attr-defined]
_pieces: Final[Any] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, None, encode_basestring, None, ":", ",", True, False, True
)
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_number, parse_int=_number, parse_constant=_no_constant
)
