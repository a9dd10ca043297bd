"""Takes a JSON object or array apart into the texts of its members or items, which are not interpreted.

`json_text.parse` rejects a whole text because of one repeated name or one number that is too long. Here the text must
be JSON, of any depth. `readable_members` parses each member separately: functions for `fallback=` use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.records.json_text import decoded, parse

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
_NAMES: Final = {"{": "object", "[": "array"}
_WHITE_SPACE: Final = " \t\n\r"


def readable_members(value: bytes | None) -> dict[str, Any]:
    """The members of an object by name, as `parse` reads them, except those that it rejects and those that occur
    twice. Raises Malformed if the value is not a JSON object."""
    text = decoded(value or b"")
    readable: dict[str, Any] = {}
    seen: set[str] = set()
    for name, raw in list(children(text, "{")):
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


def children(text: str, bracket: str) -> Iterator[tuple[str, str]]:
    """The members of the outer object (`bracket`: `{`) or the items of the outer array (`[`): the texts of their names
    (of items: empty) and values. Raises Malformed. It reads each token once and tracks open brackets in a list instead
    of recursing, so any depth is fine."""
    open_brackets: list[str] = []
    allowed = frozenset({"open"})
    before_value = frozenset({"colon"}) if bracket == "{" else frozenset({"open", "comma"})
    name, start = "", 0
    for kind, begin, end in _tokens(text):
        if kind not in allowed:
            raise Malformed(f"not JSON at character {begin}")
        word = text[begin:end]
        if kind == "open":
            open_brackets.append(word)
            if len(open_brackets) == 1 and word != bracket:
                raise Malformed(f"not an {_NAMES[bracket]}")
        elif kind == "close" and word != _CLOSES[open_brackets.pop()]:
            raise Malformed(f"not JSON at character {begin}")
        if len(open_brackets) == 1:
            if kind == "text" and "name" in allowed:
                name = word
            elif kind in before_value:
                start = end
            elif start:
                yield name, text[start:end].lstrip(_WHITE_SPACE)
                start = 0
        allowed = _after(kind, allowed, open_brackets)


def _after(kind: str, allowed: frozenset[str], open_brackets: list[str]) -> frozenset[str]:
    """The tokens that may follow. `name`: a string there is a name."""
    if kind == "open":
        return frozenset({"text", "name", "close"}) if open_brackets[-1] == "{" else _VALUES | {"close"}
    if kind == "comma":
        return frozenset({"text", "name"}) if open_brackets[-1] == "{" else _VALUES
    if kind == "text" and "name" in allowed:
        return frozenset({"colon"})
    if kind == "colon":
        return _VALUES
    return frozenset({"comma", "close"}) if open_brackets else frozenset({"end"})


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    position = 0
    while True:
        token = _TOKEN.match(text, position)
        if token is None or token.lastgroup is None:
            raise Malformed(f"not JSON at character {position}")
        yield token.lastgroup, token.start(token.lastgroup), token.end()
        if token.lastgroup == "end":
            return
        position = token.end()
