"""Encodes and decodes requests and replies (avro/lookups), in canonical form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from moneystate.engine.avro import HEADER_BYTES, long_bytes, read_bytes, read_long, string_bytes
from moneystate.kafka.formats import SchemaSet, Undecodable
from services.enrichment import fingerprints as fp


class Outcome(IntEnum):
    """The numbers of the enum symbols in SessionLookupCompleted."""

    FOUND = 0
    NOT_FOUND = 1
    FAILED = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a lookup."""

    outcome: Outcome
    country: str | None  # of the client, if the session was found
    attempts: int  # how many counted attempts were made


@dataclass(frozen=True, slots=True)
class Request:
    money_id: bytes
    user: bytes
    session: bytes
    requested_at_ms: int

    @property
    def key(self) -> bytes:
        """Identifies the request. Money ids are only unique per user, so the user is part of it."""
        return string_bytes(self.user) + string_bytes(self.money_id) + long_bytes(self.requested_at_ms)


class Wire:
    """Reads and completely checks the values of both topics."""

    def __init__(self) -> None:
        self.schemas = SchemaSet.load()

    def request(self, value: bytes | None) -> Request:
        """A SessionLookupRequested. Raises Undecodable for other values."""
        return self._read(value, fp.SESSION_LOOKUP_REQUESTED)

    def answered(self, value: bytes | None) -> Request:
        """The request that a SessionLookupCompleted answers. Raises Undecodable."""
        return self._read(value, fp.SESSION_LOOKUP_COMPLETED)

    def _read(self, value: bytes | None, header: bytes) -> Request:
        """Both types begin with the same four fields."""
        type_schema = self.schemas.open(value)
        if value is None or type_schema.prefix != header:
            raise Undecodable("wrong_topic", f"{type_schema.name} belongs to another topic")
        money_id, pos = read_bytes(value, HEADER_BYTES)
        user, pos = read_bytes(value, pos)
        session, pos = read_bytes(value, pos)
        requested_at_ms, _ = read_long(value, pos)
        return Request(money_id, user, session, requested_at_ms)


def reply(request: Request, answer: Answer, completed_at_ms: int) -> bytes:
    """A SessionLookupCompleted."""
    country = b"\x00" if answer.country is None else b"\x02" + string_bytes(answer.country.encode())
    return b"".join(
        (
            fp.SESSION_LOOKUP_COMPLETED,
            string_bytes(request.money_id),
            string_bytes(request.user),
            string_bytes(request.session),
            long_bytes(request.requested_at_ms),
            long_bytes(answer.outcome),
            country,
            long_bytes(answer.attempts),
            long_bytes(completed_at_ms),
        )
    )
