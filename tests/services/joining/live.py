"""Joining's part of the live proof."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.services.joining import reference
from tests.services.joining.reference import Logged, as_written
from tests.services.joining.workload import SERVICES, as_json, events
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
