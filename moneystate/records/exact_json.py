"""JSON as plain data and back, without a change to any number.

Whole numbers are int. Other numbers are `WrittenNumber`, because a float would lose digits, and the places of `1.10`.
For text of this program: it is not checked as strictly as by `moneystate.records.json_text`.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple


class WrittenNumber(Decimal):
    """A number as the JSON text has it."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> WrittenNumber:
        try:
            number = super().__new__(cls, text)
        except InvalidOperation:  # an exponent of more than about 18 digits: only the text is exact
            number = super().__new__(cls, float(text))
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return WrittenNumber, (self.text,)


def loads(text: str | bytes) -> Any:
    """Raises ValueError if `text` is not JSON."""
    return _DECODER.decode(text if isinstance(text, str) else text.decode())


def dumps(data: Any, *, indent: str = "", sort: bool = False, ascii: bool = False) -> str:
    """The JSON text of plain data. `indent`: of each level, on lines of their own; empty: all on one line. `sort`:
    members by name, not in their own order. `ascii`: other characters are escaped."""
    return _Form(indent, sort, ascii).text(data, "\n" if indent else "")


class _Form(NamedTuple):
    indent: str
    sort: bool
    ascii: bool

    def text(self, data: Any, line: str) -> str:
        """`line`: begins a line at the level of `data`; empty: there is one line."""
        if isinstance(data, Decimal):
            return str(data)
        inner = line + self.indent
        if isinstance(data, dict):
            names = sorted(data) if self.sort else data
            members = [f"{self.scalar(name)}: {self.text(data[name], inner)}" for name in names]
            return _joined("{", members, line, inner) + "}"
        if isinstance(data, (list, tuple)):
            return _joined("[", [self.text(item, inner) for item in data], line, inner) + "]"
        return self.scalar(data)

    def scalar(self, data: Any) -> str:
        return json.dumps(data, ensure_ascii=self.ascii)


def _joined(bracket: str, parts: list[str], line: str, inner: str) -> str:
    if not parts:
        return bracket
    return bracket + inner + (f",{inner}" if inner else ", ").join(parts) + line


def _whole(text: str) -> int | WrittenNumber:
    return WrittenNumber(text) if text == "-0" else int(text)


_DECODER: Final = json.JSONDecoder(parse_float=WrittenNumber, parse_int=_whole)
