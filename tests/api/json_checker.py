"""JSON read a second time, by the text of RFC 8259 and the rules of docs/model.md section 4: character by character,
with nothing of the standard library's parser.

`canonical(text)` is the canonical text; ValueError where the text does not decode.
"""

from __future__ import annotations

import re

LEVELS, DIGITS = 100, 1_000
SPACE = " \t\n\r"
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
OUT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
HEX = "0123456789abcdefABCDEF"


def canonical(text: str) -> str:
    made, at = _value(text, _space(text, 0), 0)
    if _space(text, at) != len(text):
        raise ValueError("more text")
    return made


def _space(text: str, at: int) -> int:
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def _value(text: str, at: int, level: int) -> tuple[str, int]:
    first = text[at : at + 1]
    if first in ("{", "[") and first:
        if level == LEVELS:
            raise ValueError("levels")
        return _object(text, at + 1, level + 1) if first == "{" else _array(text, at + 1, level + 1)
    if first == '"':
        content, at = _string(text, at)
        return _quoted(content), at
    for word in ("true", "false", "null"):
        if text.startswith(word, at):
            return word, at + len(word)
    number = NUMBER.match(text, at)
    if number is None or sum(c in "0123456789" for c in number[0]) > DIGITS:
        raise ValueError("no value")
    return number[0], number.end()


def _array(text: str, at: int, level: int) -> tuple[str, int]:
    items: list[str] = []
    at = _space(text, at)
    if text[at : at + 1] == "]":
        return "[]", at + 1
    while True:
        item, at = _value(text, _space(text, at), level)
        items.append(item)
        at = _space(text, at)
        if text[at : at + 1] == "]":
            return f"[{','.join(items)}]", at + 1
        at = _expect(text, at, ",")


def _object(text: str, at: int, level: int) -> tuple[str, int]:
    members: dict[str, str] = {}
    at = _space(text, at)
    if text[at : at + 1] == "}":
        return "{}", at + 1
    while True:
        name, at = _string(text, _space(text, at))
        at = _expect(text, _space(text, at), ":")
        if name in members:
            raise ValueError("twice")
        members[name], at = _value(text, _space(text, at), level)
        at = _space(text, at)
        if text[at : at + 1] == "}":
            names = sorted(members, key=lambda name: [ord(c) for c in name])
            return "{" + ",".join(f"{_quoted(name)}:{members[name]}" for name in names) + "}", at + 1
        at = _expect(text, at, ",")


def _expect(text: str, at: int, wanted: str) -> int:
    if text[at : at + 1] != wanted:
        raise ValueError(f"no {wanted}")
    return at + 1


def _string(text: str, at: int) -> tuple[str, int]:
    at = _expect(text, at, '"')
    units: list[int] = []
    while text[at : at + 1] != '"':
        if at >= len(text) or ord(text[at]) < 0x20:
            raise ValueError("no end, or a control character")
        if text[at] != "\\":
            units.append(ord(text[at]))
            at += 1
        elif text[at + 1 : at + 2] == "u":
            digits = text[at + 2 : at + 6]
            if len(digits) != 4 or any(c not in HEX for c in digits):
                raise ValueError("no escape")
            units.append(int(digits, 16))
            at += 6
        else:
            units.append(ord(SHORT.get(text[at + 1 : at + 2], "") or _fail()))
            at += 2
    return _joined(units), at + 1


def _joined(units: list[int]) -> str:
    """Pairs of surrogates are one character; half of one is none."""
    content = ""
    for unit in units:
        if 0xDC00 <= unit <= 0xDFFF and content and 0xD800 <= ord(content[-1]) <= 0xDBFF:
            content = content[:-1] + chr(0x10000 + (ord(content[-1]) - 0xD800) * 0x400 + unit - 0xDC00)
        else:
            content += chr(unit)
    if any(0xD800 <= ord(c) <= 0xDFFF for c in content):
        raise ValueError("half of a surrogate pair")
    return content


def _quoted(content: str) -> str:
    return '"' + "".join(OUT.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 0x20 else c) for c in content) + '"'


def _fail() -> str:
    raise ValueError("no escape")
