"""`Json`, the type of a field with any JSON: a document as its canonical text (`moneystate.records.json_text`).

This module is not compiled, because it creates objects without `__init__`.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.records.json_number import Number
from moneystate.records.json_text import (
    MAX_LEVELS,
    canonical_document,
    canonical_text,
    check_levels,
    member_texts,
    parse,
    quote,
)


class Json:
    """Any JSON, immutable. Equality and hash use the canonical text, which is in `text`."""

    __slots__ = ("text",)

    text: str

    def __init__(self, text: str) -> None:
        """Raises ValueError if `text` is not JSON, or is rejected by the rules of `moneystate.records.json_text`."""
        try:
            text.encode()
            canonical = text if canonical_document(text) is not None else canonical_text(parse(text))
        except (Malformed, UnicodeEncodeError) as e:
            raise ValueError(str(e)) from None
        object.__setattr__(self, "text", canonical)

    @classmethod
    def of(cls, value: Any) -> Json:
        """Makes a Json from a Python object: dict, list, tuple, str, int, float, Decimal, bool, None or Json."""
        return cls(_render(value, 0))

    def value(self) -> Any:
        """Returns Python objects. Whole numbers are int, others Decimal. An exponent of more than about 18 digits does
        not fit into Decimal. Then the number is Infinity or 0, as it would be as a float."""
        return _plain(parse(self.text))

    def members(self) -> dict[str, Json]:
        """The members of an object, in the order of their names. Empty for other values."""
        return {name: json_as_is(text) for name, text in member_texts(self.text).items()}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("ms.Json cannot be changed; create another one with ms.Json.of(...)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Json({self.text!r})"

    def __reduce__(self) -> tuple[type[Json], tuple[str]]:
        return Json, (self.text,)


def json_of(parsed: Any) -> Json:
    """Makes a Json from a parsed document."""
    return json_as_is(canonical_text(parsed))


def json_in_record(parsed: Any) -> Json:
    """Makes a Json from a part of a parsed record, whose levels have not been checked separately. Raises Malformed."""
    text = canonical_text(parsed)
    if text.count("[") + text.count("{") > MAX_LEVELS:
        check_levels(parsed, 0, MAX_LEVELS)
    return json_as_is(text)


def json_as_is(canonical: str) -> Json:
    """Makes a Json from text that is known to be canonical. It is not checked."""
    value: Json = _new(Json)
    _set_text(value, canonical)
    return value


def json_of_text(text: str) -> Json:
    """Makes a Json from text that was decoded from UTF-8. Raises Malformed."""
    return json_as_is(text) if canonical_document(text) is not None else json_of(parse(text))


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
    """Python objects as JSON text. `Json` then checks the text."""
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
    raise TypeError(f"expected a value that JSON can represent, found {type(value).__name__}")


_new: Final = object.__new__
_set_text: Final[Any] = Json.__dict__["text"].__set__  # half the time of object.__setattr__
