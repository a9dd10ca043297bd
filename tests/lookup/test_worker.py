"""The worker on a real broker, with a real service: what it answers, and that it does so once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from moneystate.errors import SetupError
from moneystate.lookup.resolver import Policy
from services.enrichment.fake_service import FakeSessionService, HttpAnswer, Knowledge
from tests.lookup.harness import (
    DONE_S,
    QUICK,
    REQUESTS,
    Lookups,
    Running,
    check_answered_once,
    found,
    outcomes,
    reply_to,
    request,
    scripted,
)

BROKEN = HttpAnswer(500)


def test_each_outcome_as_the_service_says_it(lookups: Lookups) -> None:
    answers = {
        "known": found("UY"),
        "unknown": HttpAnswer(404),
        "teapot": HttpAnswer(418),
        "page": HttpAnswer(200, b"<html>"),
        "number": HttpAnswer(200, b'{"clientCountryCode": 7}'),
        "list": HttpAnswer(200, b"[]"),
        "half": HttpAnswer(200, b'{"clientCountryCode": "\\ud800"}'),
        "large": found("x" * 1025),
        "long": HttpAnswer(200, b'"' + b"x" * 100_000 + b'"'),
        "moved": HttpAnswer(302, headers={"Location": "/sessions/known"}),
        "": found("FI"),
        "../x/?y=ü%2F": found("CA"),
        "..": found("IT"),
    }
    asked = [request(f"m-{session}", session, user=f"u{n % 3}") for n, session in enumerate(answers)]
    with FakeSessionService(lambda session, _: answers[session]) as service, Running(lookups.config(service)) as run:
        lookups.ask(*asked)
        replies = lookups.wait_for(len(asked), run.check)
        assert service.calls["known"] == service.calls["unknown"] == 1
        assert service.calls["teapot"] == service.calls["page"] == QUICK.attempts
    check_answered_once(asked, replies)
    by_money = {reply.money: reply for reply in replies}
    countries = {"known": "UY", "": "FI", "../x/?y=ü%2F": "CA", "..": "IT"}
    for session in answers:
        want = "FOUND" if session in countries else "NOT_FOUND" if session == "unknown" else "FAILED"
        assert by_money[f"m-{session}"].outcome == want, session
        assert by_money[f"m-{session}"].country == countries.get(session)
        assert by_money[f"m-{session}"].attempts == (QUICK.attempts if want == "FAILED" else 1)


def test_one_call_for_a_session_however_many_requests_wait_for_it(lookups: Lookups) -> None:
    asked = [request(f"m{n}", "s", user=f"u{n}") for n in range(20)]
    with FakeSessionService(lambda *_: found(), latency_s=1.0) as service:
        lookups.ask(*asked)
        with Running(lookups.config(service, Policy(timeout_s=5.0))) as run:
            replies = lookups.wait_for(20, run.check)
        assert service.calls == {"s": 1}
    check_answered_once(asked, replies)


def test_a_request_that_fails_while_others_succeed_is_failed_and_a_later_one_may_be_found(lookups: Lookups) -> None:
    """Each money event has the reply to its own request."""
    first, later = request("m1", "bad", at=1), request("m2", "bad", at=2)
    others = [request(f"o{n}", f"ok{n}", user=f"u{n}") for n in range(10)]
    bad = scripted(*[BROKEN] * QUICK.attempts, then=found("FI"))
    service = FakeSessionService(lambda s, before: bad(s, before) if s == "bad" else found())
    with service, Running(lookups.config(service)) as run:
        lookups.ask(first)
        run.wait_for(lambda: service.calls["bad"] >= QUICK.attempts - 1, "attempts")
        lookups.ask(*others)
        lookups.wait_for(len(others) + 1, run.check)
        lookups.ask(later)
        replies = lookups.wait_for(len(others) + 2, run.check)
    check_answered_once([first, later, *others], replies)
    assert outcomes(replies)["m2"] == "FOUND"
    assert set(outcomes(replies).values()) <= {"FOUND", "FAILED"}


def test_a_request_that_the_topic_answers_is_never_asked_again(lookups: Lookups) -> None:
    """The FAILED ones included; the same money id of another user or time is another request."""
    failed, done = request("m1", "s1", at=1), request("m2", "s2", at=1)
    others = [request("m1", "s3", user="bob", at=1), request("m1", "s4", at=2)]
    lookups.answer(reply_to(failed, "FAILED"), reply_to(done, "FOUND", "UY"))
    with FakeSessionService(lambda *_: found("FI")) as service, Running(lookups.config(service)) as run:
        lookups.ask(failed, done, *others, failed)
        replies = lookups.wait_for(4, run.check)
        run.wait_for(lambda: not any(lookups.lag(run.config.group).values()), "all offsets")
        assert service.calls.keys() == {"s3", "s4"}
    assert [(r.money, r.country) for r in replies].count(("m1", "FI")) == 2
    assert outcomes(replies)["m2"] == "FOUND"


def test_the_same_request_twice_is_answered_once(lookups: Lookups) -> None:
    asked = request()
    with FakeSessionService(lambda *_: found()) as service, Running(lookups.config(service)) as run:
        lookups.ask(asked, asked, asked)
        lookups.wait_for(1, run.check)
        lookups.ask(asked)
        run.wait_for(lambda: not any(lookups.lag(run.config.group).values()), "all offsets")
    check_answered_once([asked], lookups.replies())


def test_what_is_no_request_is_passed_over(lookups: Lookups) -> None:
    with FakeSessionService(lambda *_: found()) as service, Running(lookups.config(service)) as run:
        lookups.cluster.send(lookups.cluster.prefix + REQUESTS, [b"junk", b""])
        lookups.ask(request())
        lookups.wait_for(1, run.check)
        run.wait_for(lambda: not any(lookups.lag(run.config.group).values()), "all offsets")
    assert run.metrics.registry.get_sample_value("moneystate_lookup_undecodable_total") == 2


def test_a_slow_request_holds_back_no_other_and_is_asked_again_by_the_next_worker(lookups: Lookups) -> None:
    """Replies beyond it are written; its offset stays; after a restart only it is asked."""
    asked = [request("slow", "slow", at=0), *[request(f"m{n}", f"s{n}", at=n) for n in range(1, 30)]]
    over = threading.Event()

    def behave(session: str, before: int) -> HttpAnswer:
        if session == "slow" and before == 0:
            over.wait(DONE_S)
        return found()

    patient = Policy(timeout_s=60.0, deadline_s=60.0)
    with FakeSessionService(behave) as service:
        with Running(lookups.config(service, patient)) as run:
            lookups.ask(*asked)
            lookups.wait_for(len(asked) - 1, run.check)
            lag = lookups.lag(run.config.group)
        assert len(asked) in lag.values()  # all of one user, so of one partition
        with Running(lookups.config(service, patient)) as run:
            replies = lookups.wait_for(len(asked), run.check)
        assert all(n == 1 for session, n in service.calls.items() if session != "slow")
        over.set()
    check_answered_once(asked, replies)


def test_a_thousand_lookups_go_a_hundred_at_a_time(lookups: Lookups) -> None:
    asked = lookups.ask_many(1_000)
    with FakeSessionService(Knowledge(not_found_rate=0.1), latency_s=0.3) as service:
        with Running(lookups.config(service, Policy(timeout_s=30.0, deadline_s=60.0))) as run:
            lookups.wait_for(1_000, run.check)
        assert sum(service.calls.values()) == 1_000
        assert 50 < service.max_concurrent <= 100
        knowledge = service.behaviour
    replies = lookups.replies()
    check_answered_once(asked, replies)
    assert isinstance(knowledge, Knowledge)
    assert {r.money: r.country for r in replies} == {f"m{n}": knowledge.country(f"s{n}") for n in range(1_000)}


def test_two_workers_cannot_share_a_folder(lookups: Lookups) -> None:
    with FakeSessionService(lambda *_: found()) as service, Running(lookups.config(service)) as run:
        lookups.ask(request())
        lookups.wait_for(1, run.check)
        with Running(lookups.config(service, worker_id="w1")) as second, pytest.raises(SetupError):
            second.wait_for(lambda: False, "refused")


@pytest.mark.parametrize("same_folder", [True, False])
def test_an_index_goes_on_where_it_was_or_is_made_anew(lookups: Lookups, tmp_path: Path, same_folder: bool) -> None:
    asked = request()
    with FakeSessionService(lambda *_: found()) as service:
        with Running(lookups.config(service)) as run:
            lookups.ask(asked)
            lookups.wait_for(1, run.check)
        data = run.config.data if same_folder else tmp_path / "another"
        with Running(lookups.config(service, group=f"{lookups.cluster.prefix}new", data=data)) as run:
            run.wait_for(lambda: not any(lookups.lag(run.config.group).values()), "all offsets")
        assert service.calls == {"s": 1}
    check_answered_once([asked], lookups.replies())
