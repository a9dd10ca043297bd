"""Random records for the codecs: dataclasses of all allowed types, values of them, and the same for fastavro."""

from __future__ import annotations

import dataclasses
import json
import types
from dataclasses import make_dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

from hypothesis import strategies as st

from moneystate.records.types import Digits, Json, Millis, personal

LONGS = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-70, 70), st.sampled_from((4095, 4096, 8191)))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)
TIMES = st.integers(-62_135_596_800_000, 253_402_300_799_999)
_LETTERS = "abcdefgh"


def decimals(digits: Digits) -> st.SearchStrategy[Decimal]:
    most = 10**digits.precision - 1
    # where fastavro writes a byte more than it has to: -128, -32768, ...
    unscaled = st.integers(-most, most).filter(lambda n: n >= 0 or (-n).bit_count() > 1)
    return unscaled.map(lambda n: Decimal(n).scaleb(-digits.scale))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SMALL = Digits(9, 2)
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, TEXTS),
    (int, LONGS),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (bytes, st.binary(max_size=70)),
    (Millis, TIMES),
    (Decimal, decimals(Digits(20, 4))),
    (Annotated[Decimal, SMALL], decimals(SMALL)),
    (Json, json_values.map(Json.of)),
    (Literal["NEW", "OPEN"], st.sampled_from(("NEW", "OPEN"))),
    (Literal["not a name", "é"], st.sampled_from(("not a name", "é"))),
    (Annotated[str, personal], TEXTS),
]


@st.composite
def kinds(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """A type and its values."""
    leaf = draw(st.sampled_from(LEAVES))
    form = draw(st.sampled_from(("leaf", "leaf", "leaf", "maybe", "list", "dict", "record"))) if depth else "leaf"
    if form == "leaf":
        return leaf[0], leaf[1]
    if form == "record":
        return draw(records(depth - 1))
    hint: Any
    hint, values = draw(kinds(depth - 1))
    if form == "list":
        return types.GenericAlias(list, (hint,)), st.lists(values, max_size=3)
    if form == "dict":
        return types.GenericAlias(dict, (str, hint)), st.dictionaries(TEXTS, values, max_size=3)
    # in JSON, `null` of a field `Json | None` is None
    values = values.filter(lambda value: value != Json("null"))
    return Optional[hint], st.none() | values  # noqa: UP045  # mypy takes `hint | None` for arithmetic


_made = 0


@st.composite
def records(draw: st.DrawFn, depth: int = 2) -> tuple[type, st.SearchStrategy[Any]]:
    """A dataclass and its instances."""
    global _made
    _made += 1
    number = _made
    fields = draw(st.lists(kinds(depth), min_size=1, max_size=len(_LETTERS)))
    named = [(f"{letter}_field", hint) for letter, (hint, _) in zip(_LETTERS, fields, strict=False)]
    cls = make_dataclass(f"Made{number}", named, frozen=draw(st.booleans()))
    return cls, st.builds(cls, *[values for _, values in fields])


def for_fastavro(value: Any) -> Any:
    """A record as fastavro takes it: field names as on the wire, maps in the order that ours have."""
    if dataclasses.is_dataclass(value):
        return {f"{f.name[0]}Field": for_fastavro(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, list):
        return [for_fastavro(item) for item in value]
    if isinstance(value, dict):
        return {key: for_fastavro(value[key]) for key in sorted(value)}
    return value.text if isinstance(value, Json) else value


def as_python(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)
