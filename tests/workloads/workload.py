#!/usr/bin/env python3
"""A reproducible workload for the money enrichment: the same seed gives the same bytes.

It writes the three input topics as Avro single-object-encoded records (C3 01, then the
little-endian CRC-64-AVRO fingerprint of the writer schema, then the Avro body), keyed by userId,
to a Kafka cluster or to one Avro-free JSON-lines file per topic partition for looking at.

    workload.py --bootstrap-servers HOST:PORT --events 200000 --users 20000 --seed 7 [--create-topics]
    workload.py --to-dir DIR --events 2000 --users 50 --seed 7

Shape of the data (all knobs are flags): users are drawn from a skewed distribution; each user has
sessions; money names a session that is usually known, sometimes created after the money reaches
the topic, sometimes expired, sometimes never created; records are out of order within
--disorder-ms; a share of money is duplicated; a share is late by more than the bound; a few records
are not decodable. Within a topic, a user's records all go to one partition (hash of the key),
unless --scatter is given.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import uuid
import zlib
from bisect import bisect
from collections.abc import Callable, Iterator
from decimal import Decimal
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]

AVRO = Path(__file__).resolve().parents[2] / "avro"
CONTRACT = AVRO / "money-enrichment" / "events"
TOPICS = ("wallet-events", "user-events", "user-session-events")
START_MS = 1_700_000_000_000


class Record(NamedTuple):
    """One Kafka record to be: `at_ms` is when it reaches the topic; `event` has `type` and fields."""

    at_ms: int
    topic: str
    key: str
    # None: `raw` is sent as it is; both: `raw` goes after the event, or in its place where it is b"null"
    event: Json | None
    raw: bytes = b""


def uid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def generate(a: argparse.Namespace) -> Iterator[Record]:
    rng = random.Random(a.seed)
    users = [uid(rng) for _ in range(a.users)]
    by_rank: list[float] = list(accumulate(float((rank + 1) ** -a.zipf) for rank in range(a.users))) if a.zipf else []

    def any_user() -> int:
        if by_rank:
            return bisect(by_rank, rng.random() * by_rank[-1], hi=a.users - 1)
        i = int(rng.paretovariate(a.skew)) - 1 if rng.random() < a.hot else rng.randrange(a.users)
        return min(i, int(a.users) - 1)

    sessions: dict[int, list[tuple[str, int]]] = {}
    heap: list[tuple[int, int, Record]] = []
    n = 0

    def push(at_ms: int, topic: str, key: str, event: Json | None, raw: bytes = b"") -> None:
        nonlocal n
        n += 1
        heapq.heappush(heap, (at_ms, n, Record(at_ms, topic, key, event, raw)))

    def jitter() -> int:
        return int(min(rng.expovariate(4.0), 1.0) * a.disorder_ms)

    money_n, now, step = 0, START_MS, a.span_ms / a.events
    while money_n < a.events:
        now_ms = int(now) // a.round_ms * a.round_ms
        i = any_user()
        user, mine = users[i], sessions.setdefault(i, [])
        r = rng.random()
        if not mine or r < 0.04:
            created = uid(rng)
            mine.append((created, now_ms))
            delay = jitter() if rng.random() > a.slow_sessions else a.disorder_ms + rng.randrange(a.disorder_ms * 4)
            if rng.random() > a.lost_sessions:
                push(
                    now_ms + delay,
                    "user-session-events",
                    user,
                    {
                        "type": "UserSessionCreatedEvent",
                        "id": created,
                        "userId": user,
                        "processedAt": now_ms,
                        "clientCountryCode": rng.choice(("CA", "ES", "UY", "FI", "IT", "US")),
                    },
                )
            if a.repeat_sessions and rng.random() < a.repeat_sessions:
                again = now_ms + rng.randrange(-a.disorder_ms, 20 * a.disorder_ms)
                push(
                    max(again, now_ms) + jitter(),
                    "user-session-events",
                    user,
                    {
                        "type": "UserSessionCreatedEvent",
                        "id": created,
                        "userId": user,
                        "processedAt": again,
                        "clientCountryCode": "ZZ",
                    },
                )
        elif r < 0.08:
            push(
                now_ms + jitter(),
                "user-events",
                user,
                {
                    "type": "ChangeAddressEvent",
                    "id": uid(rng),
                    "userId": user,
                    "processedAt": now_ms,
                    "address": "the address",
                    "residentCountryCode": rng.choice(("ES", "PO", "UY", "FR", "DE")),
                    "postalCode": "29002",
                },
            )
        elif r < 0.10:
            push(
                now_ms + jitter(),
                "user-events",
                user,
                {
                    "type": "ChangeBirthDateEvent",
                    "id": uid(rng),
                    "userId": user,
                    "processedAt": now_ms,
                    "birthYear": str(rng.randrange(1940, 2008)),
                    "birthCityPlace": "MA",
                },
            )
        elif r < 0.11:
            push(
                now_ms + jitter(),
                "user-session-events",
                user,
                {
                    "type": "UserSessionClosedEvent",
                    "id": mine[-1][0],
                    "userId": user,
                    "processedAt": now_ms,
                    "reason": "logout",
                },
            )
        elif r < 0.12:
            push(now_ms + jitter(), rng.choice(("user-events", "wallet-events")), user, None)
        else:
            money_n += 1
            kind = "PaymentEvent" if rng.random() < 0.5 else "TransactionEvent"
            r2 = rng.random()
            sid = None if r2 < 0.03 else uid(rng) if r2 < 0.03 + a.unknown_sessions else rng.choice(mine[-3:])[0]
            if a.foreign_sessions and rng.random() < a.foreign_sessions:
                other = sessions[rng.choice(list(sessions))]
                sid = rng.choice(other)[0] if other else sid
            e = {
                "type": kind,
                "id": uid(rng),
                "userId": user,
                "userSessionId": sid,
                "processedAt": now_ms,
                "amount": Decimal(rng.randrange(100, 10_000_000)).scaleb(-2),
                "currency": "EUR",
                "openingBalance": Decimal("100"),
                "closingBalance": Decimal("200"),
                "moneyType": rng.choice(("AAA", "BBB", "CCC", "DDD")),
                ("paymentRelatedThing" if kind == "PaymentEvent" else "transactionRelatedThing"): "some info",
                "isOldMoneyEvent": rng.random() < 0.002,
            }
            late = rng.random() < a.late
            time_ms = now_ms + (a.disorder_ms + rng.randrange(a.disorder_ms * 6) if late else jitter())
            push(time_ms, "wallet-events", user, e)
            if rng.random() < a.duplicates:
                push(time_ms + rng.randrange(1, a.duplicate_within_ms), "wallet-events", user, e)
            if rng.random() < a.garbage:
                push(time_ms, "wallet-events", user, None, b"\x00not avro\xff" + bytes([money_n % 256]))
            if a.odd and rng.random() < a.odd:
                odd = rng.randrange(3)
                if odd == 0:
                    push(time_ms, "user-events", user, {**e, "id": uid(rng)})
                else:
                    push(time_ms, "wallet-events", user, {**e, "id": uid(rng)}, b"extra" if odd == 1 else b"null")
            if a.future and rng.random() < a.future:  # a producer whose clock is ten days ahead
                push(time_ms, "wallet-events", user, {**e, "id": uid(rng), "processedAt": now_ms + 864_000_000})
        now += step
        while heap and heap[0][0] <= int(now) - a.round_ms:
            yield fill(heapq.heappop(heap)[2], rng)
    while heap:
        yield fill(heapq.heappop(heap)[2], rng)


def fill(rec: Record, rng: random.Random) -> Record:
    """An ignorable event where neither event nor raw bytes were given."""
    if rec.event is not None or rec.raw:
        return rec
    if rec.topic == "wallet-events":
        e = {"type": "KindOfWalletEvent", "somethingInteresting": "x"}
    else:
        e = {"type": "OtherUserEvent", "somethingUtil": "x"}
    return rec._replace(event={**e, "id": uid(rng), "userId": rec.key, "processedAt": rec.at_ms})


def partition_of(key: str, partitions: int) -> int:
    return zlib.crc32(key.encode()) % partitions


def placer(a: argparse.Namespace) -> Callable[[str], int]:
    """Decides the partition of the next record, by its key."""
    if not a.scatter:
        return lambda key: partition_of(key, a.partitions)
    chance = random.Random(a.seed)  # its own: the records stay the same
    return lambda key: chance.randrange(a.partitions)


class Encoder:
    """Avro single-object encoding of an event by its type; also exposes the parsed schemas."""

    def __init__(self) -> None:
        import fastavro
        from fastavro.schema import fingerprint, to_parsing_canonical_form

        self.write = fastavro.schemaless_writer
        self.by_type: dict[str, tuple[bytes, Any]] = {}
        for path in sorted(CONTRACT.glob("*.avsc")):
            raw = json.loads(path.read_text())
            crc = bytes.fromhex(fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO"))
            self.by_type[path.stem] = (b"\xc3\x01" + crc, fastavro.parse_schema(raw))

    def __call__(self, event: Json) -> bytes:
        header, schema = self.by_type[event["type"]]
        out = BytesIO()
        out.write(header)
        self.write(out, schema, event)
        return out.getvalue()


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    p.add_argument("--bootstrap-servers")
    p.add_argument("--to-dir", type=Path)
    p.add_argument("--prefix", default="", help="put before each topic's name")
    p.add_argument("--create-topics", action="store_true")
    p.add_argument("--partitions", type=int, default=4)
    p.add_argument("--events", type=int, default=100_000, help="money events, before duplicates")
    p.add_argument("--users", type=int, default=10_000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--span-ms", type=int, default=3_600_000, help="event time that the money spans")
    p.add_argument("--disorder-ms", type=int, default=15_000, help="out-of-orderness; the bound in use is 20 s")
    p.add_argument("--duplicates", type=float, default=0.01)
    p.add_argument("--duplicate-within-ms", type=int, default=30_000)
    p.add_argument("--late", type=float, default=0.002)
    p.add_argument("--slow-sessions", type=float, default=0.05)
    p.add_argument("--lost-sessions", type=float, default=0.01)
    p.add_argument("--unknown-sessions", type=float, default=0.005)
    p.add_argument("--garbage", type=float, default=0.0005)
    p.add_argument("--future", type=float, default=0.0, help="share of money from a clock ten days ahead")
    p.add_argument("--round-ms", type=int, default=1, help="event times are multiples of this: ties")
    p.add_argument(
        "--repeat-sessions", type=float, default=0.0, help="share of sessions that are created a second time, later"
    )
    p.add_argument(
        "--foreign-sessions", type=float, default=0.0, help="share of money that names another user's session"
    )
    p.add_argument(
        "--odd",
        type=float,
        default=0.0,
        help="share of money followed by an odd record: type on the wrong topic, bytes left over, null value",
    )
    p.add_argument("--hot", type=float, default=0.2, help="share of the load that goes to the hottest users")
    p.add_argument("--skew", type=float, default=0.6)
    p.add_argument("--zipf", type=float, default=0.0, help="draw all users by Zipf's law with this exponent instead")
    p.add_argument("--scatter", action="store_true", help="put each record on a random partition, whatever its user")
    p.add_argument(
        "--flush-marker",
        action="store_true",
        help="end every partition with a Heartbeat one day on, so that all is released",
    )
    return p


def closing_heartbeats(a: argparse.Namespace) -> list[tuple[str, int, Json]]:
    """With --flush-marker: the (topic, partition, Heartbeat) that ends each partition."""
    if not a.flush_marker:
        return []
    e = {"type": "Heartbeat", "processedAt": START_MS + a.span_ms + 86_400_000}
    return [(t, i, e) for t in TOPICS for i in range(a.partitions)]


def value_of(r: Record, encode: Encoder) -> bytes | None:
    """The value of the Kafka record."""
    return None if r.raw == b"null" else encode(r.event) + r.raw if r.event else r.raw


def main() -> None:
    p = parser()
    a = p.parse_args()
    if bool(a.bootstrap_servers) == bool(a.to_dir):
        p.error("give --bootstrap-servers or --to-dir")
    records, place = generate(a), placer(a)
    tail = closing_heartbeats(a)
    if a.to_dir:
        a.to_dir.mkdir(parents=True, exist_ok=True)
        files = {(t, i): (a.to_dir / f"{t}-{i}.jsonl").open("w") for t in TOPICS for i in range(a.partitions)}
        for r in records:
            line = (
                {"at": r.at_ms, "key": r.key, "event": r.event}
                if r.event
                else {"at": r.at_ms, "key": r.key, "raw": r.raw.hex()}
            )
            files[r.topic, place(r.key)].write(json.dumps(line, default=str) + "\n")
        for t, i, e in tail:
            files[t, i].write(json.dumps({"at": e["processedAt"], "key": None, "event": e}) + "\n")
        for f in files.values():
            f.close()
        return
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    if a.create_topics:
        # the events' times lie in the past: without this, the broker's time-based retention would delete them
        admin = AdminClient({"bootstrap.servers": a.bootstrap_servers})
        for name, f in admin.create_topics(
            [NewTopic(a.prefix + t, a.partitions, 1, config={"retention.ms": "-1"}) for t in TOPICS]
        ).items():
            try:
                f.result()
            except Exception as error:  # an existing topic is fine
                print(f"{name}: {error}", file=sys.stderr)
    encode = Encoder()
    producer = Producer(
        {
            "bootstrap.servers": a.bootstrap_servers,
            "linger.ms": 20,
            "compression.type": "lz4",
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    count = 0
    for r in records:
        producer.produce(
            a.prefix + r.topic,
            value_of(r, encode),
            key=r.key.encode(),
            partition=place(r.key),
            timestamp=r.at_ms,
        )
        count += 1
        if count % 5000 == 0:
            producer.poll(0)
            while len(producer) > 500_000:
                producer.poll(0.05)
    for t, i, e in tail:
        producer.produce(a.prefix + t, encode(e), partition=i, timestamp=e["processedAt"])
    producer.flush()
    print(f"{count} records ({a.events} money events before duplicates)")


if __name__ == "__main__":
    main()
