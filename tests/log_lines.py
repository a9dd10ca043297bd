"""The lines of a log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from moneystate.log import text_of
from tests.reference.codec import Malformed, decode
from tests.reference.model import LogRecord

ID_CHARACTERS = 16  # a shorter text may be part of any other


def shown(err: str) -> str:
    """What a person would read on a terminal in place of these lines."""
    return "".join(f"{text_of(line)}\n" for line in err.splitlines())


def kinds(err: str) -> list[str]:
    """The first word of each line as a person would read it: `error:` if only a command's error is there."""
    return [line.partition(" ")[0] for line in shown(err).splitlines()]


def parsed(err: str) -> list[dict[str, Any]]:
    """All lines, each of which has to be JSON with the fields of any line."""
    lines = [json.loads(line) for line in err.splitlines()]
    for line in lines:
        assert list(line)[:3] == ["time", "level", "service"], line
        assert line["event"], line
        assert line["level"] in ("debug", "info", "warning", "error"), line
    return lines


def impersonal(err: str, records: Iterable[LogRecord]) -> list[dict[str, Any]]:
    """All lines, none of which has a key or an id of these events of the enrichment."""
    known = ids(records)
    assert len(known) > 10
    assert [text for text in known if text in err] == []
    return parsed(err)


def ids(records: Iterable[LogRecord]) -> set[str]:
    texts = set()
    for record in records:
        try:
            fields = decode(record.value)[1] if record.value is not None else {}
        except (Malformed, KeyError):
            fields = {}
        key = (record.key or b"").decode(errors="replace")
        texts |= {key, *(str(value) for name, value in fields.items() if name.lower().endswith("id"))}
    return {text for text in texts if len(text) >= ID_CHARACTERS}
