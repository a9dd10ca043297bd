"""Logs written by hand, short enough to reckon with in one's head: times in seconds after `START_MS`."""

from __future__ import annotations

from collections import Counter

from tests.reference.codec import Json
from tests.reference.model import (
    LOOKUP_RESULTS,
    SESSION,
    TIMED_TOPICS,
    USER,
    WALLET,
    LogRecord,
    Partition,
    Result,
    Rules,
    encode,
    run,
)

START_MS = 1_700_000_000_000
MONEY: Json = {
    "id": "m1",
    "userId": "ann",
    "userSessionId": None,
    "amount": b"\x0fB@",
    "currency": "EUR",
    "openingBalance": b"\x00",
    "closingBalance": b"\x1e\x84\x80",
    "moneyType": "AAA",
    "isOldMoneyEvent": False,
}


def ms(seconds: float) -> int:
    """The time that lies `seconds` after the start."""
    return START_MS + round(seconds * 1000)


class LogBuilder:
    """Appends records to the partitions of the input topics. Each timed topic has `partitions`."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions: list[Partition] = [(topic, n) for topic in TIMED_TOPICS for n in range(partitions)]
        self.records: list[LogRecord] = []
        self._ends: Counter[Partition] = Counter()

    def put(self, topic: str, value: bytes | None, *, partition: int = 0, timestamp_ms: int | None = None) -> LogRecord:
        """Append a record with this value as it is."""
        offset = self._ends[topic, partition]
        self._ends[topic, partition] += 1
        self.records.append(LogRecord(topic, partition, offset, timestamp_ms, b"key", value))
        return self.records[-1]

    def event(self, topic: str, event_type: str, at: float, fields: Json, partition: int = 0) -> LogRecord:
        """Append an event of this type and time with the other fields."""
        return self.put(topic, encode(event_type, {**fields, "processedAt": ms(at)}), partition=partition)

    def money(
        self, money_id: str, at: float, session: str | None = None, *, partition: int = 0, **fields: object
    ) -> None:
        """Append a PaymentEvent of user ann."""
        event = {**MONEY, "paymentRelatedThing": "x", "id": money_id, "userSessionId": session, **fields}
        self.event(WALLET, "PaymentEvent", at, event, partition)

    def transaction(self, money_id: str, at: float, session: str | None = None, **fields: object) -> None:
        """Append a TransactionEvent of user ann."""
        event = {**MONEY, "transactionRelatedThing": "x", "id": money_id, "userSessionId": session, **fields}
        self.event(WALLET, "TransactionEvent", at, event)

    def session(self, session_id: str, at: float, country: str = "CA", user: str = "ann", partition: int = 0) -> None:
        """Append a UserSessionCreatedEvent."""
        fields = {"id": session_id, "userId": user, "clientCountryCode": country}
        self.event(SESSION, "UserSessionCreatedEvent", at, fields, partition)

    def address(self, country: str, at: float, user: str = "ann") -> None:
        """Append a ChangeAddressEvent."""
        fields = {"id": "a", "userId": user, "address": "x", "residentCountryCode": country, "postalCode": "1"}
        self.event(USER, "ChangeAddressEvent", at, fields)

    def birth(self, year: str, at: float, user: str = "ann") -> None:
        """Append a ChangeBirthDateEvent."""
        fields = {"id": "b", "userId": user, "birthYear": year, "birthCityPlace": "x"}
        self.event(USER, "ChangeBirthDateEvent", at, fields)

    def beat(self, topic: str, at: float, partition: int = 0) -> None:
        """Append a Heartbeat to one partition."""
        self.event(topic, "Heartbeat", at, {}, partition)

    def beats(self, at: float) -> None:
        """Append a Heartbeat to every partition."""
        for topic, partition in self.partitions:
            self.beat(topic, at, partition)

    def reply(
        self, money_id: str, requested_at: float, outcome: str, country: str | None = None, user: str = "ann"
    ) -> None:
        """Append a SessionLookupCompleted."""
        answer = {"moneyId": money_id, "userId": user, "userSessionId": "s", "requestedAt": ms(requested_at)}
        done = {"outcome": outcome, "clientCountryCode": country, "attempts": 1, "completedAt": ms(1e6)}
        self.put(LOOKUP_RESULTS, encode("SessionLookupCompleted", {**answer, **done}))

    def run(self, rules: Rules, *, drain: bool = False) -> Result:
        """What the reference model makes of the log."""
        return run(self.records, self.partitions, rules, drain)


def out(result: Result) -> list[tuple[str, str]]:
    """(money id, status) in the order of processing."""
    return [(record.value["money"]["id"], record.value["sessionStatus"]) for record in result.enriched]


def asked(result: Result) -> list[tuple[str, float, str]]:
    """(money id, requestedAt in seconds after the start, reason) in the order of processing."""
    return [(r["moneyId"], (r["requestedAt"] - ms(0)) / 1000, r["reason"]) for r in result.requests]


def reasons(result: Result) -> list[str]:
    """The classes of the dead letters' reasons, by topic, partition and offset."""
    return [letter.reason for letter in result.dead_letters]
