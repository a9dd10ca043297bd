"""The audit log: one JSON line for each call that read personal fields or changed anything."""

from __future__ import annotations

from collections.abc import Iterable

from moneystate.replica.model import Version
from moneystate.serving.audit_log import AuditLog
from moneystate.serving.callers import Caller


class Audit(AuditLog):
    """The audit log of a query server."""

    def write(
        self, call: str, caller: Caller, keys: Iterable[str], version: Version | None, outcome: str, changed: bool
    ) -> None:
        """`keys`: those whose personal fields were read, or who were changed."""
        if self.log is None:
            return
        self.log.info(
            "changed" if changed else "read personal fields",
            call=call,
            subject=caller.subject,
            peer=caller.peer,
            keys=list(keys),
            version=None if version is None else str(version),
            outcome=outcome,
        )
