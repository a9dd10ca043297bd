"""Why a request is refused: a code that clients can rely on, with its HTTP status, and what goes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

STATUSES: Final[Mapping[str, int]] = {
    "BAD_BODY": 400,  # not JSON, not gzip, or no record
    "INVALID_RECORD": 400,
    "BAD_IDEMPOTENCY_KEY": 400,
    "NO_TOKEN": 401,
    "BAD_TOKEN": 401,
    "TOPIC_NOT_GRANTED": 403,
    "FIELD_NOT_GRANTED": 403,
    "UNKNOWN_TOPIC": 404,
    "METHOD_NOT_ALLOWED": 405,
    "KEY_IN_PROGRESS": 409,
    "BODY_TOO_LARGE": 413,
    "RECORD_TOO_LARGE": 413,
    "TOO_MANY_RECORDS": 413,
    "UNSUPPORTED_CONTENT": 415,
    "KEY_USED": 422,  # for another body
    "TOO_FAST": 429,
    "QUEUE_FULL": 503,
    "UNAVAILABLE": 503,  # nothing is in the log
    "UNKNOWN_OUTCOME": 503,  # the record may be in the log
}
MAX_PROBLEMS: Final = 100  # in one answer


class Found(NamedTuple):
    """A problem of one of a request's records."""

    number: int | None  # of the record, from 0; None: the request has only one
    field: str
    text: str

    def plain(self) -> dict[str, Any]:
        members = {"field": self.field, "problem": self.text}
        return members if self.number is None else {"index": self.number, **members}


class Refused(Exception):
    """A request, or one of its records, that is not taken."""

    def __init__(self, code: str, message: str, problems: Sequence[Found] = (), retry_s: float = 0.0) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.problems = problems
        self.retry_s = retry_s  # 0: sending it again does not help

    @property
    def status(self) -> int:
        return STATUSES[self.code]

    def plain(self) -> dict[str, Any]:
        members: dict[str, Any] = {"error": self.code, "message": self.message}
        if self.problems:
            members["problems"] = [problem.plain() for problem in self.problems[:MAX_PROBLEMS]]
        return members


def too_large(most: int) -> Refused:
    return Refused("BODY_TOO_LARGE", f"expected a body of at most {most:,} bytes, also after it is decompressed.")
