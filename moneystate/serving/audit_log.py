"""The file that an audit log is written to, one JSON line for each entry."""

from __future__ import annotations

import sys
from typing import Any, TextIO

import structlog

from moneystate.errors import ConfigError


class AuditLog:
    """`target` is a file to append to, "-" for stdout, or "" for none. Raises ConfigError."""

    def __init__(self, target: str) -> None:
        self.log: Any = None
        self.file: TextIO | None = None
        if not target:
            return
        if target != "-":
            try:
                self.file = open(target, "a", buffering=1, encoding="utf-8")  # noqa: SIM115 (as long as the server)
            except OSError as e:
                raise ConfigError(
                    f"--audit-log {target}: expected a file to write to, but {e.strerror}.",
                    "check the path and its permissions.",
                ) from None
        self.log = structlog.wrap_logger(
            structlog.WriteLogger(self.file or sys.stdout),
            processors=[structlog.processors.TimeStamper("iso", utc=True), structlog.processors.JSONRenderer()],
        )

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
