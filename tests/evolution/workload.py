"""A small workload that leaves something of every kind in the state, cut in two: what is read before the checkpoint is
kept, and what comes after."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tests.reference import codec, model
from tests.workloads.workload_log import workload_log

# Shorter than the workload's time, so that sessions and ids expire in it; the ids of a hot user fill several pages.
RULES = model.Rules(lookup=True, session_ttl_ms=300_000, dedup_ttl_ms=200_000, session_wait_ms=45_000)
FLAGS = (
    *("--session-lookup", "topic", "--session-ttl", "300s", "--dedup-ttl", "200s", "--session-wait", "45s"),
    *("--application-id", "kept"),
)
PARTITIONS = 2
OUTCOMES = ("FOUND", "NOT_FOUND", "FAILED")


class Story(NamedTuple):
    """The input, each part in the order of sending. `replies`: to what the second part asks for, too."""

    first: list[model.LogRecord]
    second: list[model.LogRecord]


def story() -> Story:
    records, partitions = workload_log(
        *("--partitions", str(PARTITIONS), "--users", "30", "--seed", "3", "--events", "900", "--span-ms", "600000"),
        *("--round-ms", "50", "--hot", "0.6", "--skew", "1.2", "--late", "0.03", "--odd", "0.01", "--future", "0.005"),
        *("--garbage", "0.01", "--repeat-sessions", "0.2", "--foreign-sessions", "0.02", "--duplicates", "0.05"),
        *("--unknown-sessions", "0.06", "--lost-sessions", "0.05", "--flush-marker"),
    )
    records = [_with_text_id(record) for record in records]
    asked = model.run(records, partitions, RULES).requests
    cut = len(records) * 6 // 10
    early, late = _replies(asked)
    return Story([*records[:cut], *early], [*late, *records[cut:]])


def _with_text_id(record: model.LogRecord) -> model.LogRecord:
    """Some money has an id that is no UUID, or not written as UUIDs mostly are."""
    try:
        kind, fields = codec.decode(record.value or b"")
    except (KeyError, codec.Malformed):
        return record
    if kind not in ("PaymentEvent", "TransactionEvent"):
        return record
    money_id = fields["id"]
    chosen = zlib.crc32(money_id.encode()) % 8
    if chosen == 0:
        money_id = f"order-{money_id[:8]}"
    elif chosen == 1:
        money_id = money_id.upper()
    return replace(record, value=codec.encode(kind, {**fields, "id": money_id}))


def _replies(asked: Sequence[codec.Json]) -> tuple[list[model.LogRecord], list[model.LogRecord]]:
    """A reply to every request: every third one before the first part's end, whether it is asked for by then or not."""
    early: list[model.LogRecord] = []
    late: list[model.LogRecord] = []
    for n, request in enumerate(sorted(asked, key=lambda r: (r["requestedAt"], r["moneyId"]))):
        (early if n % 3 == 0 else late).append(_reply(n, request))
    return early, late


def _reply(number: int, request: codec.Json) -> model.LogRecord:
    outcome = OUTCOMES[number // 3 % 3]
    answer = {name: request[name] for name in ("moneyId", "userId", "userSessionId", "requestedAt")}
    answer |= {
        "outcome": outcome,
        "clientCountryCode": "UY" if outcome == "FOUND" else None,
        "attempts": 1,
        "completedAt": request["requestedAt"] + 1_000,
    }
    value = codec.encode("SessionLookupCompleted", answer)
    partition = zlib.crc32(request["userId"].encode()) % PARTITIONS
    return model.LogRecord(
        model.LOOKUP_RESULTS, partition, 0, request["requestedAt"] + 1_000, request["userId"].encode(), value
    )
