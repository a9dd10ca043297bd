"""Reads the valid members of a JSON object whose other members are wrong, for functions of `fallback=`.

`json_text.parse` refuses a whole text for one name that stands twice, or one number that is too long, anywhere in it.
Here the text must be JSON, of any depth, and each member is parsed by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from moneystate.api.json_text import parse
from moneystate.engine.avro import Malformed

_TOKEN: Final = re.compile(
    r"""[ \t\n\r]*(?:
        (?P<text>"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*")
      | (?P<open>[\[{]) | (?P<close>[\]}]) | (?P<comma>,) | (?P<colon>:)
      | (?P<plain>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN|-?Infinity)
      | (?P<end>\Z))""",
    re.VERBOSE,
)
_VALUES: Final = frozenset({"text", "plain", "open"})
_CLOSES: Final = {"{": "}", "[": "]"}


def readable_members(value: bytes | None) -> dict[str, Any]:
    """The members of an object by name, as `parse` reads them, except those that it rejects and those that occur
    twice. Raises Malformed if the value is not a JSON object."""
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None
    readable: dict[str, Any] = {}
    seen: set[str] = set()
    for name, raw in list(_members(text)):
        try:
            key = parse(name)
            if key in seen:
                readable.pop(key, None)
            else:
                readable[key] = parse(raw)
            seen.add(key)
        except Malformed:
            continue
    return readable


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of the outer object, as they are written. It looks at each token once and keeps the open
    brackets itself, so that no depth is too much for it."""
    opened: list[str] = []
    allowed = frozenset({"open"})
    name, start = "", 0
    for kind, begin, end in _tokens(text):
        if kind not in allowed:
            raise Malformed(f"not JSON at character {begin}")
        word = text[begin:end]
        if kind == "open":
            opened.append(word)
            if len(opened) == 1 and word == "[":
                raise Malformed("not an object")
        elif kind == "close" and word != _CLOSES[opened.pop()]:
            raise Malformed(f"not JSON at character {begin}")
        if len(opened) == 1 and kind == "text" and "name" in allowed:
            name = word
        elif len(opened) == 1 and kind == "colon":
            start = end
        elif start and not (len(opened) > 1 or kind == "open"):
            yield name, text[start:end]
            start = 0
        allowed = _after(kind, allowed, opened)


def _after(kind: str, allowed: frozenset[str], opened: list[str]) -> frozenset[str]:
    """What may come next. `name`: a text there is a name."""
    if kind == "open":
        return frozenset({"text", "name", "close"}) if opened[-1] == "{" else _VALUES | {"close"}
    if kind == "comma":
        return frozenset({"text", "name"}) if opened[-1] == "{" else _VALUES
    if kind == "text" and "name" in allowed:
        return frozenset({"colon"})
    if kind == "colon":
        return _VALUES
    return frozenset({"comma", "close"}) if opened else frozenset({"end"})


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    place = 0
    while True:
        token = _TOKEN.match(text, place)
        if token is None or token.lastgroup is None:
            raise Malformed(f"not JSON at character {place}")
        yield token.lastgroup, token.start(token.lastgroup), token.end()
        if token.lastgroup == "end":
            return
        place = token.end()
