"""JSON as text: what is read strictly, and the canonical text of any JSON.

The canonical text: members in the code point order of their names, no white space, strings escaped as in RFC 8785,
numbers as they were written. Two texts of one canonical text are the same JSON here, whatever wrote them.

A text does not decode that has a name twice in one object, NaN or Infinity, half of a surrogate pair, more than 100
levels, or a number of more than 1,000 digits: other readers would not agree on what it says.
"""

from __future__ import annotations

import json
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final

from moneystate.engine.avro import Malformed

MAX_LEVELS: Final = 100
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
            canonical = canonical_text(parse(text))
        except (Malformed, UnicodeEncodeError) as e:
            raise ValueError(str(e)) from None
        object.__setattr__(self, "text", canonical)

    @classmethod
    def of(cls, value: Any) -> Json:
        """From Python's objects: dict, list, tuple, str, int, float, Decimal, bool, None and Json."""
        return cls(_render(value, 0))

    def value(self) -> Any:
        """As Python's objects; numbers are int where they are whole, else Decimal."""
        return _plain(parse(self.text))

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
    made = Json.__new__(Json)
    object.__setattr__(made, "text", canonical_text(parsed))
    return made


def parse(text: str) -> Any:
    """The JSON in `text`, numbers as `Number`. Raises Malformed."""
    try:
        document, end = _DECODER.raw_decode(text.strip(_WHITE_SPACE))
    except json.JSONDecodeError as e:
        raise Malformed(f"not JSON: {e.msg} at character {e.pos}") from None
    except RecursionError:
        raise Malformed(f"more than {MAX_LEVELS} levels") from None
    if end != len(text.strip(_WHITE_SPACE)):
        raise Malformed("more text after the JSON")
    if text.count("[") + text.count("{") > MAX_LEVELS or "\\u" in text:
        _check(document, 0)
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


def _check(parsed: Any, level: int) -> None:
    """Levels, and texts that are no UTF-8."""
    kind = type(parsed)
    if kind is str:
        try:
            parsed.encode()
        except UnicodeEncodeError:
            raise Malformed("a text with half of a surrogate pair") from None
    elif kind is dict or kind is list:
        if level == MAX_LEVELS:
            raise Malformed(f"more than {MAX_LEVELS} levels")
        for item in parsed:
            _check(item, level + 1)
        if kind is dict:
            for item in parsed.values():
                _check(item, level + 1)


def _plain(parsed: Any) -> Any:
    if isinstance(parsed, Number):
        return int(parsed) if parsed.lstrip("-").isdigit() else Decimal(parsed)
    if isinstance(parsed, dict):
        return {name: _plain(value) for name, value in parsed.items()}
    if isinstance(parsed, list):
        return [_plain(value) for value in parsed]
    return parsed


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


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_number, parse_int=_number, parse_constant=_no_constant
)
