"""Arguments of calls as people type them: of declared queries, versions, and values of indices."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.records.json_text import parse
from moneystate.replica.model import Version
from moneystate.state.v1 import header_pb2
from moneystate.state.v1 import state_pb2 as s

DIGITS: Final = 20  # of a number of 64 bits, at most, with its sign


class Mistyped(Exception):
    """A text that is no value of the type."""

    def __init__(self, expected: str, text: str) -> None:
        super().__init__(f"{text}: expected {expected}.")
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
        raise Mistyped(str(plain), text) from None


def version_of(text: str) -> header_pb2.Version:
    """EPOCH/BATCH. Raises Mistyped."""
    epoch, _, batch = text.rpartition("/")
    if not epoch or not re.fullmatch(r"-1|[0-9]{1,18}", batch):  # -1: the state that an epoch began with
        raise Mistyped("EPOCH/BATCH", text)
    return header_pb2.Version(epoch=epoch, batch=int(batch))


def version_text(version: header_pb2.Version) -> str:
    """EPOCH/BATCH."""
    return str(Version(version.epoch, version.batch))


def index_value(parts: Iterable[str]) -> s.IndexValue:
    """Whole numbers are numbers; `"7"` in quotes is a text. Raises Mistyped."""
    return s.IndexValue(parts=[_part(part) for part in parts])


def _part(part: str) -> s.Part:
    if re.fullmatch(r"-?[0-9]+", part):
        return s.Part(number=_number(part))
    return s.Part(text=part[1:-1] if re.fullmatch(r'".*"', part) else part)


def _number(part: str) -> int:
    number = int(part[:DIGITS])
    if len(part) > DIGITS or not -(1 << 63) <= number < 1 << 63:
        raise Mistyped("a number of 64 bits", part)
    return number
