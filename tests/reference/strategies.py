"""Hypothesis strategies for small logs that are meant to be hard.

Few users, ids and types, so that events meet; times on a coarse grid with the distances of the rules among its steps,
so that ties and exact limits are common; every class of dead letter; records of a user in any partition, with any key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from hypothesis import strategies as st

from tests.reference.builder import START_MS
from tests.reference.codec import HEADER_BYTES, Json, read_number
from tests.reference.model import (
    FIRST_TIME_MS,
    LAST_TIME_MS,
    LOOKUP_RESULTS,
    TIMED_TOPICS,
    TOPIC_OF_TYPE,
    WALLET,
    LogRecord,
    Partition,
    Rules,
    encode,
    run,
)

GRID_MS = 1000
USERS = ("ann", "bob", "zoë")
OFTEN_ANN = ("ann", "ann", "ann", "ann", "bob", "zoë")  # state is per user: events of many users do not meet
SESSIONS = ("s1", "s1", "s1", "s2", "s3", "")
MONEY_IDS = ("m1", "m1", "m2", "m3", "m4", "m5", "m6", "")
MONEY_TYPES = ("AAA", "BBB")
COUNTRIES = ("CA", "ES", "FI")
AMOUNTS = (b"\x0fB@", b"\x00", b"\xff\x80", b"", b"\x00\x00\x01")  # the last two: valid Avro, though not the shortest
KEYS = (b"ann", b"bob", "zoë".encode(), None, b"", b"\xff")
HEADERS = ((), (), (), (("trace", b"1"), ("empty", None)))


class Log(NamedTuple):
    """Records in the order of sending, and all partitions, also those without a record."""

    records: list[LogRecord]
    partitions: list[Partition]


class Case(NamedTuple):
    """A whole input: the log, the rules and the replies to the lookups that they lead to."""

    records: list[LogRecord]
    partitions: list[Partition]
    rules: Rules
    replies: list[LogRecord]


@st.composite
def rules(draw: st.DrawFn, least_ms: int = 0) -> Rules:
    """Small rules; no duration is less than `least_ms`."""

    def duration(*values_ms: int) -> int:
        return draw(st.sampled_from([max(value_ms, least_ms) for value_ms in values_ms]))

    return Rules(
        bound_ms=duration(3000, 0, 1000, 20_000),
        session_ttl_ms=duration(10_000, 1000, 60_000, 86_400_000),
        dedup_ttl_ms=duration(5000, 0, 1000, 30_000, 3_600_000),
        session_wait_ms=duration(4000, 0, 1000, 30_000),
        max_future_ms=duration(600_000, 0, 5000),
        lookup=draw(st.booleans()),
    )


# --- one record, before it is known when and where it is sent ---


@dataclass(frozen=True)
class Draft:
    """An event before it gets its times."""

    type: str
    fields: Json
    topic: str
    partition: int
    back_ms: int = 0  # how far its event time is behind its time of sending
    step_ms: int = 0
    time_ms: int | None = None  # in place of the time that follows from `back_ms`
    damage: str = "none"
    stamp: str = "none"  # which Kafka timestamp it gets
    gap: int = 0
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def _session_id_at(value: bytes) -> int:
    """Where the union of `userSessionId` begins in a money event: after two texts."""
    pos = HEADER_BYTES
    for _ in range(2):
        length, pos = read_number(value, pos, 64)
        pos += length
    return pos


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "none": lambda value: value,
    "null": lambda value: None,
    "empty": lambda value: b"",
    "text": lambda value: b"\x00not avro\xff",
    "no magic": lambda value: b"\xc3\x02" + value[2:],
    "short header": lambda value: value[: HEADER_BYTES - 1],
    "unknown fingerprint": lambda value: value[:2] + bytes(8) + value[HEADER_BYTES:],
    "no body": lambda value: value[:HEADER_BYTES],
    "cut": lambda value: value[:-1],
    "left over": lambda value: value + b"\x00",
    "negative length": lambda value: value[:HEADER_BYTES] + b"\x01" + value[HEADER_BYTES + 1 :],
    "huge length": lambda value: value[:HEADER_BYTES] + b"\xfe\xff\xff\xff\x0f" + value[HEADER_BYTES + 1 :],
    "not utf-8": lambda value: (
        value[:HEADER_BYTES] + b"\x02\xff" + value[HEADER_BYTES + 1 + value[HEADER_BYTES] // 2 :]
    ),
    "length too wide": lambda value: value[:HEADER_BYTES] + b"\x80" * 10 + b"\x00" + value[HEADER_BYTES + 1 :],
    "branch -1": lambda value: value[: _session_id_at(value)] + b"\x01" + value[_session_id_at(value) + 1 :],
    "branch 2": lambda value: value[: _session_id_at(value)] + b"\x04" + value[_session_id_at(value) + 1 :],
    # these two are events all the same, though not as a writer would write them
    "padded length": lambda value: (
        value[:HEADER_BYTES] + bytes([value[HEADER_BYTES] | 0x80, 0]) + value[HEADER_BYTES + 1 :]
    ),
    "boolean 2": lambda value: value[:-1] + b"\x02",
}
KINDS = {  # the kinds of drafts and how often each comes
    "PaymentEvent": 20,
    "TransactionEvent": 8,
    "UserSessionCreatedEvent": 14,
    "ChangeAddressEvent": 3,
    "ChangeBirthDateEvent": 2,
    "ForgetUserRequested": 2,
    "Heartbeat": 4,
    "KindOfWalletEvent": 1,
    "OtherUserEvent": 1,
    "UserSessionClosedEvent": 1,
    "MoneyEnriched": 1,
    "SessionLookupRequested": 1,
    "SessionLookupCompleted": 1,
}
WEIGHTED_KINDS = [kind for kind, weight in KINDS.items() for _ in range(weight)]
ENRICHED: Json = {
    "money": {
        "id": "m1",
        "userId": "ann",
        "processedAt": START_MS,
        "amount": b"\x00",
        "currency": "EUR",
        "closingBalance": b"\x00",
        "moneyType": "AAA",
        "isOldMoneyEvent": False,
    },
    "firstOccurrence": True,
    "sessionStatus": "JOINED",
}
LOOKUP: Json = {"moneyId": "m1", "userId": "ann", "userSessionId": "s1", "requestedAt": START_MS}
FIXED_FIELDS: dict[str, Json] = {
    "Heartbeat": {},
    "MoneyEnriched": ENRICHED,
    "SessionLookupRequested": {**LOOKUP, "reason": "OLD"},
    "SessionLookupCompleted": {**LOOKUP, "outcome": "FAILED", "attempts": 1, "completedAt": START_MS},
}
TEXT_FIELDS = {
    "ChangeAddressEvent": ("address", "residentCountryCode", "postalCode"),
    "ChangeBirthDateEvent": ("birthYear", "birthCityPlace"),
    "UserSessionCreatedEvent": ("clientCountryCode",),
    "KindOfWalletEvent": ("somethingInteresting",),
    "ForgetUserRequested": ("requestedBy",),
    "OtherUserEvent": ("somethingUtil",),
    "UserSessionClosedEvent": ("reason",),
}


def _fields(draw: st.DrawFn, kind: str) -> Json:
    """All fields of an event but its time."""
    if kind in FIXED_FIELDS:
        return FIXED_FIELDS[kind]
    user = draw(st.sampled_from(OFTEN_ANN))
    if kind in TEXT_FIELDS:
        texts = {name: draw(st.sampled_from(COUNTRIES)) for name in TEXT_FIELDS[kind]}
        return {"id": draw(st.sampled_from(SESSIONS)), "userId": user, **texts}
    return {
        "id": draw(st.sampled_from(MONEY_IDS)),
        "userId": user,
        "userSessionId": draw(st.sampled_from((*SESSIONS, None))),
        "amount": draw(st.sampled_from(AMOUNTS)),
        "currency": "EUR",
        "openingBalance": b"\x00",
        "closingBalance": draw(st.sampled_from(AMOUNTS)),
        "moneyType": draw(st.sampled_from(MONEY_TYPES)),
        "paymentRelatedThing" if kind == "PaymentEvent" else "transactionRelatedThing": "x",
        "isOldMoneyEvent": draw(st.sampled_from((False, False, False, False, True))),
    }


def _distances(r: Rules) -> list[int]:
    """The distances in time at which a rule turns, and those that lie next to them."""
    limits = (r.bound_ms, r.session_wait_ms, r.dedup_ttl_ms, r.session_ttl_ms, r.bound_ms + r.session_wait_ms)
    return sorted({limit + near for limit in limits for near in (-1, 0, 1, GRID_MS) if limit + near >= 0})


@st.composite
def _drafts(draw: st.DrawFn, r: Rules, most_partitions: int) -> Draft:
    kind = draw(st.sampled_from(WEIGHTED_KINDS))
    topics = [TOPIC_OF_TYPE[kind]] * 60 if TOPIC_OF_TYPE.get(kind) in TIMED_TOPICS else []
    near = [0, GRID_MS, 2 * GRID_MS]
    damage = draw(st.sampled_from((*("none",) * 150, *DAMAGE)))
    if damage != "none":  # damage is described for money; what it would do to others can be anything
        kind, topics = "PaymentEvent", [WALLET]
    return Draft(
        type=kind,
        fields=_fields(draw, kind),
        topic=draw(st.sampled_from((*topics, *TIMED_TOPICS))),
        partition=draw(st.integers(0, most_partitions - 1)),
        back_ms=draw(st.sampled_from((*near * 12, -GRID_MS, *_distances(r)))),
        step_ms=draw(st.sampled_from((*near * 40, *_distances(r)))),
        time_ms=draw(
            st.sampled_from((None,) * 300 + (FIRST_TIME_MS - 1, FIRST_TIME_MS, LAST_TIME_MS, LAST_TIME_MS + 1))
        ),
        damage=damage,
        stamp=draw(st.sampled_from(("none", "sent", "event", "edge") * 10 + ("beyond",))),
        gap=draw(st.sampled_from((0, 0, 0, 1, 5))),
        key=draw(st.sampled_from(KEYS)),
        headers=draw(st.sampled_from(HEADERS)),
    )


# --- logs ---


@st.composite
def logs(draw: st.DrawFn, r: Rules, max_records: int = 40) -> Log:
    """A log of three topics with one to three partitions each, mostly closed by heartbeats that release its events."""
    counts = {topic: draw(st.sampled_from((1, 1, 2, 3))) for topic in TIMED_TOPICS}
    partitions = [(topic, number) for topic, count in counts.items() for number in range(count)]
    sender = _Sender(r, counts)
    least = draw(st.sampled_from((0, max_records // 4, max_records // 2)))
    for draft in draw(st.lists(_drafts(r, 3), min_size=least, max_size=max_records)):
        sender.send(draft)
    silent = draw(st.sampled_from((*(None,) * 15, *partitions)))
    ahead_ms = draw(st.sampled_from((10 * 86_400_000, *_distances(r), None)))
    if ahead_ms is not None:
        for topic, number in partitions:
            if (topic, number) != silent:
                sender.send(Draft("Heartbeat", {}, topic, number, back_ms=-ahead_ms))
    return Log(sender.records, partitions)


class _Sender:
    """Turns drafts into records, with a clock that the drafts' steps move on."""

    def __init__(self, r: Rules, counts: dict[str, int]) -> None:
        self.rules = r
        self.counts = counts
        self.records: list[LogRecord] = []
        self.now_ms = START_MS
        self._ends: Counter[Partition] = Counter()

    def send(self, draft: Draft) -> None:
        """Append what becomes of the draft."""
        self.now_ms += draft.step_ms
        time_ms = self.now_ms - draft.back_ms if draft.time_ms is None else draft.time_ms
        value = DAMAGE[draft.damage](encode(draft.type, {**draft.fields, "processedAt": time_ms}))
        partition = draft.partition % self.counts[draft.topic]
        offset = self._ends[draft.topic, partition] + draft.gap
        self._ends[draft.topic, partition] = offset + 1
        stamp_ms = self._stamp(draft.stamp, time_ms)
        self.records.append(LogRecord(draft.topic, partition, offset, stamp_ms, draft.key, value, draft.headers))

    def _stamp(self, stamp: str, time_ms: int) -> int | None:
        edge_ms = time_ms - self.rules.max_future_ms
        stamp_ms = {"sent": self.now_ms, "event": time_ms, "edge": edge_ms, "beyond": edge_ms - 1}.get(stamp)
        return None if stamp_ms is None or stamp_ms < 0 else stamp_ms


@st.composite
def lookup_replies(draw: st.DrawFn, log: Log, r: Rules, max_partitions: int = 2) -> list[LogRecord]:
    """Replies to some of the lookups that the drained log leads to; some repeat, contradict, go astray or are damaged.

    All replies to a user lie in one partition, as the key sees to: which is the first in the log is not defined else.
    """
    requests = run(log.records, log.partitions, replace(r, lookup=True), drain=True).requests
    asked = [*requests, *({**request, "requestedAt": request["requestedAt"] + 1} for request in requests[:1]), LOOKUP]
    chosen = draw(st.lists(st.sampled_from(asked), max_size=2 * len(asked)))
    partitions = draw(st.integers(1, max_partitions))
    ends: Counter[int] = Counter()
    replies = []
    for request in chosen:
        value = draw(_reply_values(request))
        partition = USERS.index(request["userId"]) % partitions
        offset = ends[partition] + draw(st.sampled_from((0, 0, 1)))
        ends[partition] = offset + 1
        replies.append(LogRecord(LOOKUP_RESULTS, partition, offset, None, request["userId"].encode(), value))
    return replies


@st.composite
def _reply_values(draw: st.DrawFn, request: Json) -> bytes | None:
    outcome = draw(st.sampled_from(("FOUND", "NOT_FOUND", "FAILED")))
    country = draw(st.sampled_from(COUNTRIES)) if outcome == "FOUND" else None
    reply = {name: request[name] for name in ("moneyId", "userId", "userSessionId", "requestedAt")}
    reply |= {"outcome": outcome, "clientCountryCode": country, "attempts": 1, "completedAt": START_MS}
    value = encode("SessionLookupCompleted", reply)
    odd = (encode("Heartbeat", {"processedAt": START_MS}), encode("SessionLookupRequested", {**reply, "reason": "OLD"}))
    damaged = (None, b"\x00not avro\xff", value[:-1], value + b"\x00")
    return draw(st.sampled_from((*(value,) * 12, *odd, *damaged)))


@st.composite
def cases(draw: st.DrawFn, max_records: int = 40, least_ms: int = 0) -> Case:
    """Rules, a log for which they matter, and replies to its lookups."""
    r = draw(rules(least_ms))
    log = draw(logs(r, max_records))
    return Case(log.records, log.partitions, r, draw(lookup_replies(log, r)))
