"""Reads and writes a lookup's records, in canonical form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from moneystate.api.lookup import FAILED, FOUND, NOT_FOUND
from moneystate.engine.avro import HEADER_BYTES, Malformed, string_bytes
from moneystate.engine.processor import Rejected
from moneystate.errors import StepError
from moneystate.records.codec import Codec
from moneystate.runtime.lookup_plan import Attempt, LookupPlan, Unusable


class Outcome(StrEnum):
    FOUND = FOUND
    NOT_FOUND = NOT_FOUND
    FAILED = FAILED


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the calls for a path."""

    outcome: Outcome
    body: bytes | None  # of the HTTP answer, if it found something
    attempts: int  # how many counted attempts were made


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as its record."""

    record: Any
    owner: bytes  # the key of its record and of its reply
    key: bytes  # identifies it
    path: str  # where it is asked; requests with the same path share a call


class Wire:
    """Reads and completely checks the values of both topics."""

    def __init__(self, plan: LookupPlan) -> None:
        self.plan = plan
        self.identity = ",".join(plan.ids)  # the fields in a request's key

    def request(self, value: bytes | None) -> Request:
        """Raises Rejected for a value that is not a request."""
        record = _record(self.plan.request, value)
        try:
            path = self.plan.path(record)
        except StepError:
            raise
        except Exception as e:  # of the service's function
            raise StepError(f"{self.plan.where}: its url= raised {type(e).__name__}.", "correct the function.") from e
        return Request(record, *self._key(record), path)

    def answered(self, value: bytes | None) -> bytes:
        """The key of the request that a reply answers. Raises Rejected for a value that is not a reply."""
        _, key = self._key(_record(self.plan.reply, value))
        return key

    def _key(self, record: Any) -> tuple[bytes, bytes]:
        """The key of a request's or reply's record, and of the request."""
        owner = self.plan.keys.keys(record)[0]
        return owner, string_bytes(owner) + self.plan.id_of(record).encode()

    def reply(self, request: Request, answer: Answer, completed_at_ms: int) -> bytes:
        """Raises Unusable if a reply to this request cannot hold the answer."""
        attempt = Attempt(answer.outcome.value, answer.attempts, completed_at_ms)
        return self.plan.reply_to(request.record, attempt, answer.body)

    def problem(self, request: Request, body: bytes) -> str:
        """Returns why a reply cannot hold the body of an HTTP answer; empty: it can."""
        try:
            self.reply(request, Answer(Outcome.FOUND, body, 1), 0)
        except Unusable as e:
            return str(e)
        return ""


def _record(codec: Codec, value: bytes | None) -> Any:
    if value is None:
        raise Rejected("null_value", "")
    if value[:HEADER_BYTES] != codec.header:
        raise Rejected("unknown_schema", f"expected {codec.record.short}")
    try:
        return codec.decode(value)
    except Malformed as e:
        raise Rejected("malformed", str(e)) from None
