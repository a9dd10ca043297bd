"""Rows of JSON Lines. Numbers stay as they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moneystate.engine.avro import Malformed
from moneystate.records.json_text import MAX_RECORD_LEVELS, decoded, parse
from moneystate.tables.rows import Read, Row, Unreadable


def read_json_lines(lines: Iterable[bytes]) -> Iterator[Read]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = parse(decoded(line), MAX_RECORD_LEVELS)
        except Malformed as e:
            yield Unreadable(number, str(e))
            continue
        yield Row(number, document) if type(document) is dict else Unreadable(number, "not an object")
