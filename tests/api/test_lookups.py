"""`service.lookup`, `ctx.ask` and replies: what a service may rely on, wherever batches end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import moneystate as ms
from moneystate.errors import ServiceError, StepError
from moneystate.runtime.job import asked_again
from moneystate.runtime.lookup_plan import Attempt, LookupPlan, Unusable
from moneystate.runtime.plan import Plan
from moneystate.testing import CRASH, Bench

MINUTE = 60_000


@dataclass(frozen=True)
class Placed:
    order: str
    customer: str
    at: ms.Millis
    note: str = ""


@dataclass(frozen=True)
class Asked:
    order: str
    customer: str
    at: ms.Millis


@dataclass(frozen=True)
class Replied:
    order: str
    customer: str
    at: ms.Millis
    outcome: ms.Outcome
    score: int | None
    limit: int = 0
    attempts: int = 0
    completed_at: ms.Millis = 0


@dataclass(frozen=True)
class Decided:
    order: str
    score: int
    note: str


@dataclass
class Seen:
    orders: int = 0


class Shop:
    """The service of these tests. `ask`: how its step asks."""

    def __init__(self, ask: Callable[[Any, ms.Context[None], Placed], None] | None = None, **more: Any) -> None:
        self.service = ms.Service("shop")
        self.placed = self.service.input("orders", Placed, key="order", time="at")
        self.decided = self.service.output("decisions", Decided, key="order")
        self.seen = self.service.value("seen", Seen)
        declared: dict[str, Any] = {"url": "/scores/{customer}", "key": "order", "time": "at", "held": Placed, **more}
        self.scores = self.service.lookup("scores", request=Asked, reply=Replied, **declared)

        @self.service.on(self.placed, self.seen)
        def place(ctx: ms.Context[None], e: Placed, seen: Seen) -> None:
            seen.orders += 1
            if e.note == "forget":
                ctx.forget()
            elif e.note != "rejected":
                (ask or Shop.ask)(self, ctx, e)
            else:
                Shop.ask(self, ctx, e)
                raise ms.Reject("rejected")

        @self.service.on(self.scores)
        def decide(ctx: ms.Context[None], reply: Replied, held: Placed) -> None:
            if held.note == "bad":
                raise ms.Reject("bad_reply")
            if held.note == "again":
                Shop.ask(self, ctx, held)
            ctx.emit(self.decided, Decided(held.order, -1 if reply.score is None else reply.score, held.note))

    def ask(self, ctx: ms.Context[None], e: Placed) -> None:
        ctx.ask(self.scores, Asked(e.order, e.customer, ctx.now), e)


@pytest.fixture
def shop() -> Shop:
    return Shop()


def reply(order: str, at: int, score: int | None = 7, customer: str = "eve") -> Replied:
    return Replied(order, customer, at, "NOT_FOUND" if score is None else "FOUND", score)


def test_a_request_is_held_until_its_reply(shop: Shop) -> None:
    bench = Bench(shop.service)
    bench.send(Placed("a", "eve", MINUTE, "n"), CRASH)
    assert bench.out(shop.scores.requests) == [Asked("a", "eve", MINUTE)]
    assert [e.held.note for e in bench.state(shop.scores.open, "a").values()] == ["n"]
    assert bench.count("looking_up") == 1
    bench.reply(shop.scores, {"score": 7, "more": [1]})
    assert bench.out(shop.decided) == [Decided("a", 7, "n")]
    assert bench.state(shop.scores.open, "a") == {}
    assert bench.count("looking_up") == 0
    bench.end()


def test_the_first_reply_in_the_log_counts(shop: Shop) -> None:
    bench = Bench(shop.service, cuts="each")
    bench.send(Placed("a", "eve", MINUTE))
    assert len(bench.out(shop.scores.requests)) == 1
    bench.send(reply("a", MINUTE, 1), reply("a", MINUTE, 2))
    assert bench.out(shop.decided) == [Decided("a", 1, "")]
    bench.end()


@pytest.mark.parametrize("cuts", ["each", "one", "random"])
def test_a_replay_finds_replies_before_their_requests(cuts: Any) -> None:
    shop = Shop()
    bench = Bench(shop.service, cuts=cuts)
    bench.send(reply("a", MINUTE, 1), reply("a", MINUTE, 2), reply("b", MINUTE, None))
    bench.send(Placed("a", "eve", MINUTE), Placed("b", "eve", MINUTE))
    assert bench.out(shop.decided) == [Decided("a", 1, ""), Decided("b", -1, "")]
    assert len(bench.out(shop.scores.requests)) == 2  # they are written again, and the worker knows them
    bench.end()
    assert [key for key, _ in bench.entries() if b"early" in key or b"scores" in key] == []


def test_a_reply_that_nothing_asks_for_leaves_no_trace(shop: Shop) -> None:
    bench = Bench(shop.service)
    bench.send(Placed("a", "eve", 5 * MINUTE))
    bench.send(reply("a", 9 * MINUTE), reply("a", MINUTE), reply("a", 5 * MINUTE, customer="bob"))
    assert bench.out(shop.decided) == []
    bench.end()
    assert not any(b"early" in key for key, _ in bench.entries())


def test_requests_of_the_same_identity_have_the_same_reply() -> None:
    shop = Shop(by=())
    bench = Bench(shop.service)
    bench.send(*(Placed("a", customer, MINUTE, str(n)) for n, customer in enumerate(["eve", "bob", "eve"])))
    assert len(bench.state(shop.scores.open, "a")) == 3
    bench.send(reply("a", MINUTE))
    assert bench.out(shop.decided) == [Decided("a", 7, str(n)) for n in range(3)]
    assert bench.state(shop.scores.open, "a") == {}
    bench.end()


def test_forgetting_a_key_leaves_its_open_lookups(shop: Shop) -> None:
    bench = Bench(shop.service)
    bench.send(Placed("a", "eve", MINUTE), Placed("a", "eve", 2 * MINUTE, "forget"))
    assert bench.state(shop.seen, "a") == Seen()
    bench.reply(shop.scores, {"score": 1})
    assert bench.out(shop.decided) == [Decided("a", 1, "")]
    bench.end()


def test_a_rejected_step_has_not_asked(shop: Shop) -> None:
    bench = Bench(shop.service)
    bench.send(reply("b", MINUTE), Placed("a", "eve", MINUTE, "rejected"), Placed("b", "eve", MINUTE, "rejected"))
    assert bench.dead_letters() == ["rejected", "rejected"]
    assert (bench.out(shop.scores.requests), bench.out(shop.decided), bench.count("looking_up")) == ([], [], 0)
    bench.end()


def test_a_rejected_reply_is_a_dead_letter_and_its_request_is_closed(shop: Shop) -> None:
    bench = Bench(shop.service)
    bench.send(Placed("a", "eve", MINUTE, "bad"))
    bench.reply(shop.scores, {"score": 1})
    assert (bench.dead_letters(), bench.count("looking_up")) == (["bad_reply"], 0)
    bench.end()


def test_a_reply_has_the_time_of_its_request() -> None:
    """Whatever the watermark is when it is read."""
    shop = Shop()
    times: list[tuple[int, bool, str]] = []
    handler = shop.service.handlers[-1][1]
    decide = handler.function

    def decide_at(ctx: ms.Context[None], *more: Any) -> None:
        times.append((ctx.now, ctx.late, ctx.key))
        decide(ctx, *more)

    handler.function = decide_at
    bench = Bench(shop.service)
    bench.send(Placed("a", "eve", MINUTE), Placed("b", "eve", 9 * MINUTE))
    bench.reply(shop.scores, to=Asked("a", "eve", MINUTE))
    bench.count("late")
    assert times == [(MINUTE, False, "a")]


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda s, ctx, e: ctx.ask(s.scores, Asked(e.order, e.customer, e.at + 1), e), "pass ctx.now"),
        (lambda s, ctx, e: ctx.ask(s.scores, Asked("other", e.customer, ctx.now), e), "ctx.key"),
        (lambda s, ctx, e: ctx.ask(s.scores, Asked(e.order, e.customer, ctx.now)), "a held Placed"),
        (lambda s, ctx, e: ctx.ask(s.scores, e, e), "expected Asked"),
        (lambda s, ctx, e: ctx.ask(s.placed, e, e), "expected a lookup"),
        (lambda s, ctx, e: ctx.ask(Shop().scores, Asked(e.order, e.customer, ctx.now), e), "of this service"),
    ],
)
def test_a_wrong_request_is_an_error_that_says_what_to_do(ask: Any, told: str) -> None:
    bench = Bench(Shop(ask).service)
    bench.send(Placed("a", "eve", MINUTE))
    with pytest.raises(StepError) as wrong:
        bench.count("late")
    assert told in str(wrong.value)


def test_a_reply_cannot_ask(shop: Shop) -> None:
    bench = Bench(shop.service)
    bench.send(Placed("a", "eve", MINUTE, "again"))
    bench.reply(shop.scores, {"score": 1})
    with pytest.raises(StepError, match="ask earlier"):
        bench.count("late")


@dataclass(frozen=True)
class Text:
    order: str
    at: str
    outcome: ms.Outcome


@dataclass(frozen=True)
class NoOutcome:
    order: str
    at: ms.Millis


@dataclass(frozen=True)
class Required(NoOutcome):
    outcome: ms.Outcome
    score: int


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"reply": Text}, "another type"),
        ({"reply": NoOutcome}, "outcome: ms.Outcome"),
        ({"reply": Required}, "X | None"),
        ({"key": "nothing"}, "no field 'nothing'"),
        ({"key": lambda r: r.order}, "a field of both records"),
        ({"time": "customer"}, "ms.Millis"),
        ({"by": ("score",)}, "both records"),
        ({"url": "scores/{customer}"}, "a path with fields"),
        ({"url": "/scores"}, "a path with fields"),
        ({"url": "/scores/{name}"}, "no field 'name'"),
        ({"url": "/scores/{customer:>9}"}, "a path with fields"),
        ({"url": "/scores/{"}, "a path with fields"),
    ],
)
def test_a_wrong_declaration_is_refused(more: dict[str, Any], told: str) -> None:
    service = ms.Service("shop")
    given: dict[str, Any] = {"reply": Replied, "url": "/scores/{customer}", "key": "order", "time": "at", **more}
    scores = service.lookup("scores", request=Asked, **given)
    service.on(scores)(lambda ctx, reply, asked: None)
    with pytest.raises(ServiceError) as wrong:
        Plan(service)
    assert told in str(wrong.value)


def test_a_lookup_without_a_function_is_refused() -> None:
    service = ms.Service("shop")
    service.lookup("scores", request=Asked, reply=Replied, url="/{customer}", key="order", time="at")
    with pytest.raises(ServiceError, match="no function runs on its replies"):
        Plan(service)


def plan_of(shop: Shop) -> LookupPlan:
    return Plan(shop.service).lookups[shop.scores]


@pytest.mark.parametrize(
    ("customer", "path"),
    [("eve", "/scores/eve"), ("", "/scores/"), ("..", "/scores/%2E%2E"), ("a/ü?&", "/scores/a%2F%C3%BC%3F%26")],
)
def test_a_path_has_the_fields_of_the_request_quoted(shop: Shop, customer: str, path: str) -> None:
    assert plan_of(shop).path(Asked("a", customer, 1)) == path


def test_a_function_may_make_the_path() -> None:
    assert plan_of(Shop(url=lambda r: f"/{r.at}")).path(Asked("a", "eve", 5)) == "/5"
    with pytest.raises(StepError, match="begins with /"):
        plan_of(Shop(url=lambda r: r.customer)).path(Asked("a", "eve", 5))


def test_a_reply_has_the_members_of_the_answer(shop: Shop) -> None:
    plan, asked = plan_of(shop), Asked("a", "eve", 5)
    answered = plan.reply_to(asked, Attempt("FOUND", 2, 99), b'{"score": 7, "limit": 3, "other": null}')
    assert plan.reply.decode(answered) == Replied("a", "eve", 5, "FOUND", 7, 3, 2, 99)
    assert plan.reply.decode(plan.reply_to(asked, Attempt("FAILED", 3, 99))) == Replied(
        "a", "eve", 5, "FAILED", None, 0, 3, 99
    )
    assert plan.id_of(asked) == plan.id_of(plan.reply.decode(answered))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"score": null}', b'{"score": "7"}', b'{"score": 1e9}']
)
def test_an_answer_without_these_members_is_unusable(shop: Shop, body: bytes) -> None:
    with pytest.raises(Unusable):
        plan_of(shop).reply_to(Asked("a", "eve", 5), Attempt("FOUND", 1, 0), body)


def test_a_service_may_refuse_answers() -> None:
    plan = plan_of(Shop(accept=lambda r: r.score >= 0))
    ask = partial(plan.reply_to, Asked("a", "eve", 5), Attempt("FOUND", 1, 0))
    assert ask(b'{"score": 0}')
    with pytest.raises(Unusable):
        ask(b'{"score": -1}')
    assert plan.reply_to(Asked("a", "eve", 5), Attempt("FAILED", 1, 0))  # has no answer to refuse


def test_a_job_from_a_savepoint_asks_again_for_what_is_open() -> None:
    from examples.credit import credit

    bench = Bench(credit.service)
    bench.send(credit.OrderPlaced("a", "eve", 9_000, MINUTE), credit.OrderPlaced("b", "eve", 9, MINUTE))
    (asked,) = bench.out(credit.scores.requests)
    again = [asked_again("examples.credit.credit:service", (), key, value) for key, value in bench.entries()]
    (output,) = [output for output in again if output is not None]
    stream, key, value, _ = output
    assert (stream, key) == (bench.plan.streams.index("scores-requests"), b"a")
    assert bench.plan.outputs[credit.scores.requests].codec.decode(value or b"") == asked
