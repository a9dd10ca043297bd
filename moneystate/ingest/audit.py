"""The audit log of `moneystate ingest`: who wrote how much to which topic, and who was refused."""

from __future__ import annotations

from typing import Any

from moneystate.ingest.callers import Caller
from moneystate.ingest.refusals import Refused
from moneystate.serving.audit_log import AuditLog
from moneystate.serving.http_security import machine_of

AUDITED = frozenset({"NO_TOKEN", "BAD_TOKEN", "TOPIC_NOT_GRANTED", "FIELD_NOT_GRANTED", "TOO_FAST"})


class Audit(AuditLog):
    def written(self, caller: Caller, topic: str, records: int, status: int) -> None:
        if self.log is not None:
            self.log.info(
                "written", subject=caller.subject, machine=caller.machine, topic=topic, records=records, status=status
            )

    def refused(self, caller: Caller | None, scope: Any, topic: str, refused: Refused) -> None:
        """`caller`: None if it is not known."""
        if self.log is not None and refused.code in AUDITED:
            self.log.info(
                "refused",
                subject="" if caller is None else caller.subject,
                machine=machine_of(scope),
                topic=topic,
                code=refused.code,
            )
