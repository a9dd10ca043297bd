"""Why a request is refused: a code that clients can rely on, with its HTTP status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

STATUSES: Final[Mapping[str, int]] = {
    "INVALID_REQUEST": 400,
    "INVALID_ROW": 400,  # the endpoint or subscription breaks a rule
    "UNKNOWN_SECRET": 400,  # a row names a secret that its owner does not have
    "NO_TOKEN": 401,
    "BAD_TOKEN": 401,
    "SCOPE_MISSING": 403,
    "OWNER_NOT_GRANTED": 403,
    "TENANT_NOT_GRANTED": 403,
    "NOT_FOUND": 404,  # also what belongs to another owner
    "METHOD_NOT_ALLOWED": 405,
    "ID_USED": 409,  # now or before
    "SECRET_USED": 409,  # by an endpoint
    "BODY_TOO_LARGE": 413,
    "TOO_FAST": 429,
    "ANOTHER_WRITER": 503,  # of the table
    "UNAVAILABLE": 503,  # Kafka or the store of secrets
}


class Refused(Exception):
    def __init__(self, code: str, message: str, retry_s: float = 0.0) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.retry_s = retry_s  # 0: sending it again does not help

    @property
    def status(self) -> int:
        return STATUSES[self.code]

    def plain(self) -> dict[str, Any]:
        return {"error": self.code, "message": self.message}


def not_found(kind: str) -> Refused:
    return Refused("NOT_FOUND", f"expected the id of {kind} that the token may see.")


def another_writer() -> Refused:
    return Refused("ANOTHER_WRITER", "expected to be the table's only writer, another one has taken over.")
