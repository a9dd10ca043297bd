"""A record that cannot be indexed, decoded or shown is reported and counted, and stops nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

import moneystate as ms
from moneystate.engine import keys
from moneystate.engine.ends import EndOfBatch
from moneystate.replica.applying import Applier
from moneystate.replica.follower_loop import FollowerLoop
from moneystate.replica.loading import FirstLoad
from moneystate.replica.model import Version
from moneystate.replica.transaction_assembler import UNUSABLE, TransactionAssembler
from moneystate.runtime import layout
from moneystate.serving.failures import Failure
from moneystate.state.v1 import state_pb2 as s
from moneystate.testing import Bench
from tests.query.in_memory import Served


@dataclass(frozen=True)
class Rated:
    key: str
    rate: float
    time: ms.Millis


@dataclass
class Rate:
    rate: float = 0.0


service = ms.Service("rates")
rated = service.input("rated", Rated, key="key", time="time")
rate = service.value("rate", Rate)
by_inverse = service.index("by_inverse", rate, lambda r: int(100 / (r.rate - 2)))
by_rate = service.index("by_rate", rate, lambda r: "any")


@service.on(rated, rate)
def take(ctx: ms.Context[None], e: Rated, r: Rate) -> None:
    r.rate = e.rate


@service.query
def total(view: ms.View) -> float:
    return sum(r.rate for _, r in view.range(by_rate))


@service.query
def wrong(view: ms.View) -> int:
    return "many"  # type: ignore[return-value]


KEYS = ["a", "bad", "c"]


def entry(key: str) -> bytes:
    return layout.entry_key(layout.prefix_of(layout.VALUE, "rate"), key.encode())


def served() -> Served:
    bench = Bench(service, bound_ms=0)
    bench.send(*[Rated(key, 1.0, n) for n, key in enumerate(KEYS)])
    return Served(bench)


@pytest.fixture
def there() -> Iterator[Served]:
    with served() as one:
        yield one


def listed(served: Served, **by: Any) -> list[str]:
    return [r.name.key for r in served.call("List", s.ListRequest(**by)).records]


def counted(served: Served) -> dict[str, int]:
    return {count.kind: count.entries for count in served.reader.status().schema_counts}


def test_an_entry_that_an_index_cannot_have_is_missing_there_alone(there: Served) -> None:
    codec = there.bench.plan.kinds["rate"].codec
    there.put([(entry("bad"), codec.encode(Rate(2.0)))])  # the function of by_inverse divides by zero
    assert listed(there, index="by_inverse") == ["a", "c"]
    assert listed(there, index="by_rate") == listed(there, state="rate") == KEYS
    assert counted(there)["not in by_inverse"] == 1
    there.put([(entry("bad"), codec.encode(Rate(3.0)))])
    assert sorted(listed(there, index="by_inverse")) == KEYS
    there.put([(entry("bad"), None)])
    assert listed(there, index="by_rate") == ["a", "c"]


@pytest.mark.parametrize(
    "value", [b"", b"\xc3\x01garbage", b"\xc3\x01" + b"x" * 8], ids=["empty", "cut off", "unknown"]
)
def test_an_entry_that_cannot_be_decoded_is_answered_without_content(there: Served, value: bytes) -> None:
    there.put([(entry("bad"), value)])
    name = s.RecordName(state="rate", key="bad")
    (record,) = there.call("Get", s.GetRequest(name=name)).records
    assert (record.HasField("json"), bool(record.unreadable)) == (False, True)
    assert listed(there, state="rate") == KEYS
    assert listed(there, index="by_rate") == ["a", "c"]
    assert [c.after.name.key for c in there.call("Diff", s.DiffRequest(**since(0))).changes] == ["bad"]
    assert there.call("Explain", s.ExplainRequest(name=name)).steps[0].record.unreadable
    assert [r.unreadable != "" for answer in there.watched(after=0) for r in answer.changes] == [True]
    assert there.calls[0].unreadable == 1
    assert counted(there)["not in by_rate"] == 1
    assert json.loads(there.call("Call", s.CallRequest(query="total")).result.json) == 2.0


def since(batch: int) -> dict[str, Any]:
    return {"from": {"version": {"epoch": "e", "batch": batch}}}


def test_a_query_whose_result_cannot_be_represented_says_so(there: Served) -> None:
    with pytest.raises(Failure) as refused:
        there.call("Call", s.CallRequest(query="wrong"))
    assert refused.value.reason == "UNREADABLE"


class Record:
    """A record of the changelog."""

    def __init__(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        self.parts = (offset, key, value)

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.parts[0]

    def key(self) -> bytes | None:
        return self.parts[1]

    def value(self) -> bytes | None:
        return self.parts[2]

    def timestamp(self) -> tuple[int, int]:
        return 1, 5_000


def end(records: int, groups: list[int], total: int | None = 1) -> bytes:
    return EndOfBatch("e", 1, 2_000, groups, total, records, 1, {}).encode()


BAD: list[tuple[bytes | None, bytes | None]] = [
    (None, b"x"), (b"", b"x"), (b"?what", b"x"), (b"v", b"x"), (b"v\xff", None), (keys.END, b"not JSON"),
    (keys.END, b"[" * 50_000), (keys.END, b"{}"), (keys.END, end(1, [7])), (keys.END, end(1, [0], 1 << 60)),
    (keys.END, end(1, [0], None)),
]  # fmt: skip


def test_no_record_of_the_changelog_ends_the_follower(there: Served) -> None:
    loop = object.__new__(FollowerLoop)
    loop.store, loop.applier = there.store, Applier(there.store)
    loop.assembler = TransactionAssembler(1, 1, there.model)
    loop.begin = cast(Any, SimpleNamespace(starts={0: 0}, ends={0: 0}))
    loop.topics = cast(Any, SimpleNamespace(ends=lambda read_to: read_to))
    loop.stream = cast(Any, SimpleNamespace(read_to={0: 1}))
    codec = there.bench.plan.kinds["rate"].codec
    there.store.record.groups = 1
    log = [Record(10 + n, *bad) for n, bad in enumerate(BAD)]
    log.append(Record(50, entry("d"), codec.encode(Rate(5.0))))
    log.append(Record(51, keys.END, end(1 + len(BAD), [0])))
    for message in log:
        loop._take(cast(Any, message))
    there.reader.refresh()
    assert loop.stream.read_to == {0: 52}
    assert there.reader.newest() == Version("e", 1)
    assert listed(there, state="rate") == [*KEYS, "d"]
    assert counted(there)[UNUSABLE] >= len(BAD) - 1


def test_no_record_of_the_changelog_ends_the_first_load(there: Served) -> None:
    changelog = cast(Any, SimpleNamespace(starts={0: 0}, ends={0: len(BAD)}, asked_ms=0))
    load, read_to = FirstLoad(there.store, changelog), {0: 0}
    load.add([cast(Any, Record(n, *bad)) for n, bad in enumerate(BAD)], read_to)
    assert load.is_done(read_to)
