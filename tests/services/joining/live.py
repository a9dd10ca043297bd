"""Joining's part of the live proof."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

import moneystate as ms
from services.joining.records import Cancelled, Part
from tests.services.joining import reference
from tests.services.joining.reference import Event, Logged, as_written, iso
from tests.services.joining.workload import SERVICES, events
from tests.services.live import BOUND_MS, Case, Expected, Read, Written, with_junk

PARTITIONS: Final = 3
TABLES: Final = """
[joining]
services = ["scores", "odds", "video", "news"]
expected = ["scores", "odds"]
wait = "4s"
retention = "15s"
late_retention = "10s"
tombstones = true
"""
RULES: Final = reference.Rules(
    SERVICES, ("scores", "odds"), 4_000, 15_000, 10_000, tombstones=True, bound=BOUND_MS
)  # fmt: skip
PART: Final = b'{"type":"Part","id":"id-1","service":"scores","producedAt":"2033-01-01T00:00:00Z"'
JUNK: Final[dict[bytes | None, str]] = {
    None: "null_value",
    b"{": "malformed",
    b'{"type":"Party","id":"id-1"}': "unknown_schema",
    b'{"id":"id-1","service":"scores","producedAt":"2033-01-01T00:00:00Z","body":1}': "malformed",
    PART + b',"body":{"a":1,"a":2}}': "malformed",
    PART.replace(b'"scores"', b"7") + b',"body":1}': "malformed",
    b'{"type":"Cancelled","id":"id-1"}': "malformed",
}


def as_json(event: Event) -> bytes:
    """As a producer of its own would write it."""
    fields = {"type": json.dumps(type(event).__name__), "id": json.dumps(event.id)}
    if isinstance(event, Cancelled):
        fields["cancelledAt"] = json.dumps(iso(event.cancelled_at))
    elif isinstance(event, Part):
        fields |= {"service": json.dumps(event.service), "producedAt": str(event.produced_at)}
        fields |= _given(body=event.body, error=event.error)
    else:
        fields |= {"requestedAt": json.dumps(iso(event.requested_at)), "services": json.dumps(event.services)}
        fields |= _given(body=event.body)
    return ("{ " + " , ".join(f'"{name}" : {text}' for name, text in fields.items()) + "}").encode()


def _given(**members: ms.Json | None) -> dict[str, str]:
    return {name: value.text for name, value in members.items() if value is not None}


LOG: Final = list(with_junk(events(18, 600, ids=12), as_json, [*JUNK], PARTITIONS, seed=18))


def expected(_: Read) -> Expected:
    want = reference.run([Logged(one.partition, one.offset, one.record) for one in LOG], RULES)
    letters = Counter(want.letters)
    letters.update([JUNK[one.value] for one in LOG if one.record is None])
    return Expected({"joined": want.joined}, letters)


WRITTEN: Final = [Written("parts", one.partition, one.value) for one in LOG]
CASE: Final = Case(
    "joining", ("joining",), TABLES, {"parts": PARTITIONS}, WRITTEN, expected, lambda _, value: as_written(value)
)
