"""The money enrichment as one sort and one loop: what docs/model.md sections 2 and 3 say, simple rather than fast.

The real implementation is compared against it, so it imports nothing of `moneystate` or `services` and shares no
idea of how to do it in batches: it holds the complete logs, sorts every event by the total order of
section 2 and walks over them once.
All times are milliseconds since the epoch. Partitions that are idle (wall clock) are outside of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from tests.reference.codec import TYPE_OF_HEADER, Json, Malformed, decode, encode, from_json, read_body, to_ms

__all__ = ["Enriched", "LogRecord", "Result", "Rules", "UserView", "decode", "encode", "from_json", "run"]

WALLET, USER, SESSION, LOOKUP_RESULTS = "wallet-events", "user-events", "user-session-events", "session-lookup-results"
TIMED_TOPICS = (WALLET, USER, SESSION)  # those that have a part in the watermark
TOPIC_OF_TYPE = {
    "PaymentEvent": WALLET,
    "TransactionEvent": WALLET,
    "KindOfWalletEvent": WALLET,
    "ChangeAddressEvent": USER,
    "ChangeBirthDateEvent": USER,
    "ForgetUserRequested": USER,
    "OtherUserEvent": USER,
    "UserSessionCreatedEvent": SESSION,
    "UserSessionClosedEvent": SESSION,
    "SessionLookupCompleted": LOOKUP_RESULTS,
}
RANK_OF_TYPE = {
    "ChangeAddressEvent": 0,
    "ChangeBirthDateEvent": 0,
    "ForgetUserRequested": 0,
    "UserSessionCreatedEvent": 1,
    "PaymentEvent": 2,
    "TransactionEvent": 2,
}  # heartbeats and the ignored types are not here: they only advance stream time
MONEY_FIELDS = (
    "id",
    "userId",
    "userSessionId",
    "processedAt",
    "amount",
    "currency",
    "closingBalance",
    "moneyType",
    "isOldMoneyEvent",
)
STATUS_OF_OUTCOME = {"FOUND": "LOOKED_UP", "NOT_FOUND": "NOT_FOUND", "FAILED": "LOOKUP_FAILED"}
FIRST_TIME_MS = to_ms("0001-01-01T00:00:00+00:00")
LAST_TIME_MS = to_ms("9999-12-31T23:59:59.999+00:00")

Partition = tuple[str, int]  # topic without prefix, partition number


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One Kafka record at its place in the log."""

    topic: str  # without prefix
    partition: int
    offset: int
    timestamp_ms: int | None  # None: the record has none
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """All that decides the output besides the logs."""

    bound_ms: int = 20_000
    session_ttl_ms: int = 86_400_000
    dedup_ttl_ms: int = 3_600_000
    session_wait_ms: int = 60_000
    max_future_ms: int = 600_000
    lookup: bool = True  # True: `--session-lookup topic`; False: `none`
    max_record_bytes: int = 131_072


class DeadLetter(NamedTuple):
    """Where a record that cannot be used came from, and the class of the reason."""

    topic: str
    partition: int
    offset: int
    reason: str


class Enriched(NamedTuple):
    """A record of `money-enriched-events`: its key, its fields, and its value in single-object encoding."""

    user_id: str
    value: Json
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """A record that has a time, with its place in the total order; rank None: it only advances stream time."""

    order_time_ms: int
    event_time_ms: int
    record: LogRecord
    type: str
    fields: Json

    @property
    def late(self) -> bool:
        return self.order_time_ms > self.event_time_ms

    @property
    def order(self) -> tuple[int, int, str, int, int]:
        """The total order of docs/model.md section 2."""
        record = self.record
        return (self.order_time_ms, RANK_OF_TYPE[self.type], record.topic, record.partition, record.offset)


@dataclass(frozen=True, slots=True)
class PendingMoney:
    """Money that waits for its session or for its reply."""

    at_ms: int  # until when it waits for its session, or the requestedAt of the lookup
    money: Json
    user_info: Json | None
    first_occurrence: bool


@dataclass(slots=True)
class UserView:
    """What is known of a user. Sessions are id -> (clientCountryCode, expires), seen money is id -> t0."""

    user_info: Json | None = None
    sessions: dict[str, tuple[str, int]] = field(default_factory=dict)
    seen_money: dict[str, int] = field(default_factory=dict)
    money_types: set[str] = field(default_factory=set)
    waiting: list[PendingMoney] = field(default_factory=list)
    looking_up: list[PendingMoney] = field(default_factory=list)


@dataclass(slots=True)
class Result:
    """The result that the logs determine."""

    watermark_ms: float  # -inf: a partition has no record; inf: drained
    enriched: list[Enriched] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    buffered: int = 0
    waiting: int = 0
    looking_up: int = 0
    duplicates: int = 0
    late: int = 0
    users: dict[str, UserView] = field(default_factory=dict)

    @property
    def dead_letter_counts(self) -> Counter[str]:
        """How many dead letters there are of each reason class."""
        return Counter(letter.reason for letter in self.dead_letters)


def run(
    records: Iterable[LogRecord],
    partitions: Iterable[Partition],
    rules: Rules,
    drain: bool = False,
    lookup_results: Iterable[LogRecord] = (),
) -> Result:
    """Process complete logs. `partitions`: all there are, those without a record too; order of `records`: any.

    Replies may stand in `lookup_results` or among `records`; without `rules.lookup` they are not read at all.
    """
    log = sorted([*records, *lookup_results], key=lambda record: (record.topic, record.partition, record.offset))
    log = [record for record in log if rules.lookup or record.topic != LOOKUP_RESULTS]
    good, dead_letters = _decode_log(log, rules)
    timed = list(_order_times(good, rules.bound_ms))
    replies = _first_replies(good)
    watermark_ms = inf if drain else _watermark(timed, partitions, rules.bound_ms)

    events = sorted((event for event in timed if event.type in RANK_OF_TYPE), key=lambda event: event.order)
    released = [event for event in events if event.order_time_ms < watermark_ms]
    loop = _Loop(rules, replies, Result(watermark_ms, dead_letters=dead_letters, buffered=len(events) - len(released)))
    for event in released:
        loop.fire_timers(event.order_time_ms)
        loop.process(event)
    loop.fire_timers(watermark_ms)
    return loop.finish()


# --- the logs (section 2) ---


def _decode_log(log: Sequence[LogRecord], rules: Rules) -> tuple[list[tuple[LogRecord, str, Json]], list[DeadLetter]]:
    good, dead_letters = [], []
    for record in log:
        try:
            event_type, fields = _decode_record(record, rules)
            good.append((record, event_type, fields))
        except _Reason as reason:
            dead_letters.append(DeadLetter(record.topic, record.partition, record.offset, str(reason)))
    return good, dead_letters


class _Reason(Exception):
    """Why a record is a dead letter."""


def _decode_record(record: LogRecord, rules: Rules) -> tuple[str, Json]:
    """The record's type and fields. Raises the first reason that holds, from the bytes outwards to the time."""
    if record.value is None:
        raise _Reason("null_value")
    event_type = TYPE_OF_HEADER.get(record.value[:10])
    if event_type is None:
        raise _Reason("unknown_schema")
    try:
        fields, end = read_body(event_type, record.value)
    except Malformed as error:
        raise _Reason("malformed") from error
    time_ms = fields.get("processedAt")
    if time_ms is not None and not FIRST_TIME_MS <= time_ms <= LAST_TIME_MS:
        raise _Reason("malformed")
    if end != len(record.value):
        raise _Reason("trailing_bytes")
    is_reply = event_type == "SessionLookupCompleted" and record.topic == LOOKUP_RESULTS
    if time_ms is None and not is_reply:
        raise _Reason("no_event_time")
    if event_type != "Heartbeat" and TOPIC_OF_TYPE[event_type] != record.topic:
        raise _Reason("wrong_topic")
    if (is_reply or event_type in RANK_OF_TYPE) and len(record.value) > rules.max_record_bytes:
        raise _Reason("too_large")
    if time_ms is not None and record.timestamp_ms is not None and time_ms > record.timestamp_ms + rules.max_future_ms:
        raise _Reason("too_far_ahead")
    return event_type, fields


def _order_times(good: Sequence[tuple[LogRecord, str, Json]], bound_ms: int) -> Iterator[Event]:
    """Give every record that is not a dead letter its order time; each partition's in offset order."""
    high_ms: dict[Partition, int] = {}
    for record, event_type, fields in good:
        if record.topic not in TIMED_TOPICS:
            continue
        partition, time_ms = (record.topic, record.partition), fields["processedAt"]
        high_before_ms = high_ms.get(partition)
        order_time_ms = time_ms if high_before_ms is None else max(time_ms, high_before_ms - bound_ms)
        high_ms[partition] = time_ms if high_before_ms is None else max(time_ms, high_before_ms)
        yield Event(order_time_ms, time_ms, record, event_type, fields)


def _watermark(timed: Sequence[Event], partitions: Iterable[Partition], bound_ms: int) -> float:
    """The least `high - bound` over all partitions of the timed topics; -inf while one has had no record."""
    times: dict[Partition, list[int]] = defaultdict(list)
    for event in timed:
        times[event.record.topic, event.record.partition].append(event.event_time_ms)
    wanted = [partition for partition in partitions if partition[0] in TIMED_TOPICS]
    return min((max(times[partition]) - bound_ms if times[partition] else -inf for partition in wanted), default=-inf)


def _first_replies(good: Sequence[tuple[LogRecord, str, Json]]) -> dict[tuple[str, str, int], Json]:
    """The first reply in the log for each (user, money id, requestedAt)."""
    replies: dict[tuple[str, str, int], Json] = {}
    for _, event_type, fields in good:
        if event_type == "SessionLookupCompleted":
            replies.setdefault((fields["userId"], fields["moneyId"], fields["requestedAt"]), fields)
    return replies


# --- what happens to an event (section 3) ---


class _Loop:
    """The state of all users, and the steps of section 3 on it."""

    def __init__(self, rules: Rules, replies: dict[tuple[str, str, int], Json], result: Result) -> None:
        self.rules = rules
        self.replies = replies
        self.result = result
        self.users: dict[str, UserView] = defaultdict(UserView)
        # All users' waiting money in the order of processing. The wait is one constant and time never goes back, so
        # this is also the order of the timers, those of the same time in the order of the money that set them.
        self.waiting: list[PendingMoney] = []

    def fire_timers(self, before_ms: float) -> None:
        """Run what is due before `before_ms`. A timer due at t runs after all events of order time t."""
        while self.waiting and self.waiting[0].at_ms < before_ms:
            pending = self.waiting.pop(0)
            self._look_up(pending, pending.at_ms, "SESSION_MISSING")

    def process(self, event: Event) -> None:
        user = self.users[event.fields["userId"]]
        if event.type == "UserSessionCreatedEvent":
            self._session(user, event)
        elif event.type in ("PaymentEvent", "TransactionEvent"):
            self._money(user, event)
        elif event.type == "ForgetUserRequested":
            self._forget(event.fields["userId"])
        else:
            name = "residentCountryCode" if event.type == "ChangeAddressEvent" else "birthYear"
            before = user.user_info or {"birthYear": None, "residentCountryCode": None}
            user.user_info = {**before, name: event.fields[name]}

    def _session(self, user: UserView, event: Event) -> None:
        session_id, country = event.fields["id"], event.fields["clientCountryCode"]
        expires_ms = event.event_time_ms + self.rules.session_ttl_ms
        known = user.sessions.get(session_id)
        if expires_ms > event.order_time_ms and (known is None or expires_ms > known[1]):
            user.sessions[session_id] = (country, expires_ms)
        waiting, self.waiting = self.waiting, []
        for pending in waiting:
            if (pending.money["userId"], pending.money["userSessionId"]) == (event.fields["userId"], session_id):
                self._put_out(pending, "JOINED", country)
            else:
                self.waiting.append(pending)

    def _forget(self, user_id: str) -> None:
        """All that is known of the user goes, and the money that waits for a session goes out without it."""
        self.users[user_id] = UserView(looking_up=self.users[user_id].looking_up)
        mine = [pending for pending in self.waiting if pending.money["userId"] == user_id]
        self.waiting = [pending for pending in self.waiting if pending.money["userId"] != user_id]
        for pending in mine:
            self._put_out(replace(pending, user_info=None), "LOOKUP_FAILED", None)

    def _money(self, user: UserView, event: Event) -> None:
        money, t = event.fields, event.order_time_ms
        if money["id"] in user.seen_money and t < user.seen_money[money["id"]] + self.rules.dedup_ttl_ms:
            self.result.duplicates += 1
            return
        user.seen_money[money["id"]] = t
        self.result.late += event.late
        first_occurrence = money["moneyType"] not in user.money_types
        user.money_types.add(money["moneyType"])
        pending = PendingMoney(t + self.rules.session_wait_ms, money, user.user_info, first_occurrence)
        session = user.sessions.get(money["userSessionId"])
        if money["userSessionId"] is None:
            self._put_out(pending, "NO_SESSION", None)
        elif money["isOldMoneyEvent"]:
            self._look_up(pending, t, "OLD")
        elif session is not None and t < session[1]:
            self._put_out(pending, "JOINED", session[0])
        elif event.late:
            self._look_up(pending, t, "LATE")
        else:
            self.waiting.append(pending)

    def _look_up(self, pending: PendingMoney, t: int, reason: str) -> None:
        """Ask for the session. Where in the log the reply stands has no part in it: a known one answers at once."""
        if not self.rules.lookup:
            self._put_out(pending, "LOOKUP_FAILED", None)
            return
        money = pending.money
        request = {"moneyId": money["id"], "userId": money["userId"], "userSessionId": money["userSessionId"]}
        self.result.requests.append({**request, "requestedAt": t, "reason": reason})
        reply = self.replies.get((money["userId"], money["id"], t))
        if reply is None:
            asked = PendingMoney(t, money, pending.user_info, pending.first_occurrence)
            self.users[money["userId"]].looking_up.append(asked)
        else:
            is_found = reply["outcome"] == "FOUND"
            self._put_out(
                pending, STATUS_OF_OUTCOME[reply["outcome"]], reply["clientCountryCode"] if is_found else None
            )

    def _put_out(self, pending: PendingMoney, status: str, country: str | None) -> None:
        value = {
            "money": {name: pending.money[name] for name in MONEY_FIELDS},
            "userInfo": pending.user_info,
            "sessionInfo": None if country is None else {"clientCountryCode": country},
            "firstOccurrence": pending.first_occurrence,
            "sessionStatus": status,
        }
        self.result.enriched.append(Enriched(pending.money["userId"], value, encode("MoneyEnriched", value)))

    def finish(self) -> Result:
        """The result with the state that is left: what has expired at the watermark is not part of it."""
        result, w = self.result, self.result.watermark_ms
        for pending in self.waiting:
            self.users[pending.money["userId"]].waiting.append(pending)
        for user in self.users.values():
            user.sessions = {name: session for name, session in user.sessions.items() if session[1] > w}
            user.seen_money = {name: t0 for name, t0 in user.seen_money.items() if t0 + self.rules.dedup_ttl_ms > w}
        result.waiting = len(self.waiting)
        result.looking_up = sum(len(user.looking_up) for user in self.users.values())
        result.users = {user_id: user for user_id, user in self.users.items() if user != UserView()}
        return result
