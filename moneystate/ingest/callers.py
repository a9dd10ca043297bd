"""Who sends a request, and what they may write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moneystate.ingest.refusals import Refused
from moneystate.ingest.rights import EVERYTHING, Bounds, Rights
from moneystate.serving.http_security import Scope, Unauthorized, granted
from moneystate.serving.tokens import TokenCheck

Headers = Sequence[tuple[bytes, bytes]]


class Caller(NamedTuple):
    subject: str  # of the token, else empty
    machine: str  # the address, without its port
    rights: Rights

    @property
    def identity(self) -> str:
        """The one that limits and idempotency keys count for."""
        return self.subject or self.machine

    def bounds(self, topic: str) -> Bounds:
        """Raises Refused for a topic that is not granted."""
        bounds = self.rights.bounds(topic)
        if bounds is None:
            raise Refused("TOPIC_NOT_GRANTED", "expected a token that grants the topic.")
        return bounds


class Callers:
    def __init__(self, tokens: TokenCheck[Rights] | None) -> None:
        self.tokens = tokens  # None: callers need no token

    def caller(self, scope: Scope) -> Caller:
        """Raises Refused."""
        try:
            return Caller(*granted(self.tokens, scope, EVERYTHING))
        except Unauthorized as e:
            raise Refused(e.code, str(e)) from None


def header(headers: Headers, name: bytes) -> str:
    """The value of a header; empty: there is none."""
    for given, value in headers:
        if given == name:
            return value.decode("latin-1")
    return ""
