"""`service.forgetting`: the event that asks to forget a key, and the proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import moneystate as ms
from moneystate.errors import ServiceError
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench

MINUTE = 60_000


@dataclass(frozen=True)
class Wrote:
    who: str
    at: ms.Millis


@dataclass(frozen=True)
class Forget:
    who: str
    at: ms.Millis
    id: str
    by: str
    note: str = ""


@dataclass
class Count:
    n: int = 0


class Letters:
    def __init__(self, format: str = "avro", key: Any = "who", **more: Any) -> None:
        self.service = ms.Service("letters")
        self.wrote = self.service.input("letters", Wrote, key="who", time="at", format=format)
        self.forget = self.service.input("letters", Forget, key=key, time="at", format=format)
        self.forgotten = self.service.forgetting(self.forget, **{"id": "id", "by": "by", **more})
        self.count = self.service.value("count", Count)

        @self.service.on(self.wrote, self.count)
        def write(ctx: ms.Context[None], e: Wrote, count: Count) -> None:
            count.n += 1
            if count.n == 3:
                ctx.forget()

        @self.service.on(self.forget)
        def forget(ctx: ms.Context[None], e: Forget) -> None:
            ctx.forget()


def test_a_request_leaves_a_proof_and_nothing_else() -> None:
    letters = Letters()
    bench = Bench(letters.service)
    bench.send(Wrote("ann", MINUTE), Wrote("bob", MINUTE))
    bench.send(Forget("ann", 2 * MINUTE, "r1", "eve"))
    assert bench.state(letters.count, "ann") == Count()
    proof = bench.state(letters.forgotten, "ann")
    assert (proof.at, proof.request_id, proof.requested_by, proof.topic) == (2 * MINUTE, "r1", "eve", "letters")
    assert [key for key, _ in bench.entries() if b"ann" in key] == [b"v\x09forgotten\x00\x03ann"]
    bench.send(Wrote("ann", 3 * MINUTE), Forget("ann", 4 * MINUTE, "r2", "sue"))
    assert bench.state(letters.forgotten, "ann").request_id == "r2"
    assert bench.state(letters.forgotten, "bob") == ms.Forgotten()
    bench.end()


def test_a_step_that_forgets_of_its_own_leaves_no_proof() -> None:
    letters = Letters()
    bench = Bench(letters.service)
    bench.send(*(Wrote("ann", n * MINUTE) for n in range(1, 4)))
    assert list(bench.entries()) == []


@pytest.mark.parametrize("format", ["avro", "json"])
def test_the_event_of_a_request_is_one_that_the_input_reads(format: str) -> None:
    letters = Letters(format)
    bench = Bench(letters.service)
    bench.send(Wrote("ann", MINUTE))
    forgetting = bench.plan.forgetting
    assert forgetting is not None
    key, event = forgetting.event("ann", MINUTE, "r1", "eve")
    bench.send_raw("letters", event, key)
    assert bench.state(letters.forgotten, "ann").requested_by == "eve"
    assert bench.dead_letters() == []


@dataclass(frozen=True)
class NeedsMore:
    who: str
    at: ms.Millis
    id: str
    by: str
    why: str


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"id": "nothing"}, "a field of type str"),
        ({"by": "at"}, "a field of type str"),
        ({"key": lambda e: e.who}, "a field of type str"),
        ({"format": "confluent"}, "avro or json"),
    ],
)
def test_a_record_that_cannot_be_made_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ServiceError) as wrong:
        Plan(Letters(**more).service)
    assert told in str(wrong.value)


def test_a_record_that_needs_more_than_a_request_has_is_refused() -> None:
    service = ms.Service("letters")
    forget = service.input("letters", NeedsMore, key="who", time="at")
    service.forgetting(forget, id="id", by="by")
    service.on(forget)(lambda ctx, e: ctx.forget())
    with pytest.raises(ServiceError, match="why has no value"):
        Plan(service)
    with pytest.raises(ServiceError, match="declared twice"):
        service.forgetting(forget, id="id", by="by")
