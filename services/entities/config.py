"""How entities is configured: the table `[entities]` of a configuration file. All of it decides results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import moneystate as ms

DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Config:
    """`inputs`: the topics that are read; `fields`: JSON Pointers of what entities can be listed by; `format`: of all
    topics."""

    inputs: Literal["both", "events", "commands"] = "both"
    merge_window_ms: int = 30 * DAY_MS
    command_retention_ms: int = 7 * DAY_MS
    history_retention_ms: int = 30 * DAY_MS
    fields: tuple[str, ...] = ()
    format: Literal["json", "avro"] = "json"


def check(service: ms.Service[Config], config: Config) -> None:
    """Raises ServiceError."""
    for name in ("merge_window", "command_retention", "history_retention"):
        if getattr(config, f"{name}_ms") <= 0:
            service.fail(f"{name}: expected a duration above 0.", "give one, for example 30d.")
    for pointer in config.fields:
        if not pointer.startswith("/"):
            service.fail(f"fields: {pointer!r} is no JSON Pointer.", 'begin with "/", for example "/address/city".')
