"""The audit log of the interface: who changed something, read messages, or was refused. It has no secret and no URL."""

from __future__ import annotations

from moneystate.serving.audit_log import AuditLog


class Audit(AuditLog):
    def done(self, subject: str, machine: str, action: str, **about: str) -> None:
        if self.log is not None:
            self.log.info("done", subject=subject, machine=machine, action=action, **about)

    def refused(self, subject: str, machine: str, action: str, code: str, **about: str) -> None:
        if self.log is not None:
            self.log.info("refused", subject=subject, machine=machine, action=action, code=code, **about)
