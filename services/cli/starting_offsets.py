"""The form of `--starting-offsets`, looked at before anything else: what the log has is `services.kafka.starting`'s."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from services.errors import ConfigError
from services.kafka.starting import EARLIEST

FLAG = "--starting-offsets"


def check_form(text: str, topics: list[str]) -> None:
    """`earliest`, an ISO-8601 time with its zone, or a JSON file {topic: {partition: offset}} of `topics`, which are
    without prefix. Raises ConfigError for what is none of these."""
    if text == EARLIEST:
        return
    if Path(text).is_file():
        _check_file(Path(text), topics)
    else:
        _check_time(text)


def _check_time(text: str) -> None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{FLAG} {text}: expected earliest, an ISO-8601 time or a file that exists.",
            "for example 2026-01-31T00:00:00Z, or a JSON file {topic: {partition: offset}}.",
        ) from None
    if at.tzinfo is None:
        raise ConfigError(f"{FLAG} {text}: expected a time with its zone.", f"for example {text}Z.")


def _check_file(path: Path, topics: list[str]) -> None:
    try:
        content = json.loads(path.read_text())
        offsets = {topic: {int(p): int(offset) for p, offset in by.items()} for topic, by in content.items()}
    except (OSError, ValueError, AttributeError, TypeError) as e:
        raise ConfigError(f"{FLAG} {path}: expected JSON {{topic: {{partition: offset}}}}, but {e}.") from None
    unknown = sorted(offsets.keys() - set(topics))
    if unknown:
        raise ConfigError(f"{FLAG} {path}: expected topics of {', '.join(topics)}, came {unknown[0]}.")
