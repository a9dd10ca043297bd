"""Arguments of declared queries as people type them."""

from __future__ import annotations

import json
from typing import Any

from moneystate.api.json_text import parse
from moneystate.engine.avro import Malformed


class Mistyped(Exception):
    """A text that is no value of the type."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


def typed(kind: Any, text: str) -> str:
    """The JSON text of a value of an Avro type. Texts, enumerations and times need no quotes. Numbers stay as they are
    written. Raises Mistyped."""
    plain = kind if isinstance(kind, str) else kind.get("type") if isinstance(kind, dict) else "json"
    if plain in ("string", "enum") or (isinstance(kind, dict) and kind.get("logicalType") == "timestamp-millis"):
        return json.dumps(text)
    try:
        parse(text)
        return text
    except Malformed:
        raise Mistyped(str(plain)) from None
