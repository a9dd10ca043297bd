"""How joining is configured: the table `[joining]` of a configuration file. All of it decides results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import moneystate as ms


@dataclass(frozen=True)
class Config:
    """`services`: all that exist, in the order in which their fields are merged; `expected`: those that an id waits
    for where no request names others, by default all; `partial`: whether an id that is not complete after `wait_ms` is
    put out; `late_retention_ms`: by default `retention_ms`; `format`: of both topics."""

    services: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    wait_ms: int = 60_000
    retention_ms: int = 86_400_000
    late_retention_ms: int | None = None
    partial: Literal["emit", "none"] = "emit"
    tombstones: bool = False
    format: Literal["json", "avro"] = "json"

    @property
    def mark_ms(self) -> int:
        """Returns how long the mark of an id stays after its end."""
        return self.retention_ms if self.late_retention_ms is None else self.late_retention_ms


def check(service: ms.Service[Config], config: Config) -> None:
    """Raises ServiceError."""
    if not config.services:
        service.refuse_start("services: expected at least one, found none.", "name all that exist.")
    unknown = [name for name in config.expected if name not in config.services]
    if unknown:
        service.fail(f"expected: {unknown[0]!r} is not among the services.", "add it to services.")
    if len(set(config.services)) < len(config.services):
        service.fail("services: one of them is named twice.", "name each once.")
    if not 0 <= config.wait_ms < config.retention_ms:
        service.fail(
            f"wait is {config.wait_ms:,} ms and retention {config.retention_ms:,} ms.",
            "make wait shorter than retention, and not negative.",
        )
    if config.mark_ms < 0:
        service.fail(f"late_retention is {config.mark_ms:,} ms.", "make it 0 or longer.")
