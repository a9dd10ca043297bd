"""The audit log: one JSON line for each call that read personal fields or changed anything."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

import structlog

from moneystate.errors import ConfigError
from moneystate.replica.model import Version
from moneystate.serving.callers import Caller


class Audit:
    """The audit log. `target` is a file to append to, "-" for stdout, or "" for none. Raises ConfigError."""

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

    def write(
        self, call: str, caller: Caller, users: Iterable[str], version: Version | None, outcome: str, changed: bool
    ) -> None:
        """`users`: those whose personal fields were read, or who were changed."""
        if self.log is None:
            return
        self.log.info(
            "changed" if changed else "read personal fields",
            call=call,
            subject=caller.subject,
            peer=caller.peer,
            users=list(users),
            version=None if version is None else f"{version.epoch}/{version.batch}",
            outcome=outcome,
        )

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
