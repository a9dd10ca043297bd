"""The service goes away, slows down, asks to be left alone, wants to know who asks: requests wait, and none is lost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path

import pytest

from moneystate.errors import ConfigError
from moneystate.lookup.http_service import (
    MAX_BYTES,
    CallResult,
    HttpService,
    ServiceConfig,
    Unavailable,
    Unusable,
    tls_context,
)
from moneystate.lookup.limiter import MAX_HOLD_S
from moneystate.lookup.resolver import Policy
from moneystate.retry_after import retry_after_s
from services.enrichment.fake_service import FakeSessionService, HttpAnswer, Knowledge
from tests.log_lines import parsed
from tests.lookup.certificates import Authority
from tests.lookup.harness import QUICK, Lookups, Running, check_answered_once, found, outcomes, request, scripted

SECRET = "user-eve"
IMPATIENT = Policy(attempts=2, timeout_s=0.3, deadline_s=0.5, backoff_s=0.01, concurrency=20)


def down(run: Running) -> bool:
    return not run.worker.breaker.is_closed


def attempts(run: Running, result: str) -> float:
    return run.metrics.registry.get_sample_value("moneystate_lookup_attempts_total", {"result": result}) or 0.0


def test_an_outage_fails_no_request_whatever_deadline_and_attempts(lookups: Lookups) -> None:
    # a refused connection is quick; a machine under load must not make time-outs of the answers
    policy = Policy(attempts=2, timeout_s=20.0, deadline_s=20.0, backoff_s=0.01, concurrency=20)
    with FakeSessionService(Knowledge()) as service, Running(lookups.config(service, policy)) as run:
        asked = lookups.ask_many(50)
        lookups.wait_for(50, run.check)
        service.stop()
        asked += lookups.ask_many(30, first=50)
        run.wait_for(lambda: run.worker.breaker.failed_probes >= 1, "down")
        asked += lookups.ask_many(170, first=80)
        run.wait_for(lambda: run.worker.breaker.failed_probes >= 2, "probes")
        assert len(run.worker.resolver.running) <= 30  # it has stopped to take requests
        assert run.metrics.registry.get_sample_value("moneystate_lookup_breaker_state", {"state": "closed"}) == 0
        assert run.worker.ready().text.startswith("the service is down: the breaker is ")
        service.start()
        replies = lookups.wait_for(250, run.check)
    check_answered_once(asked, replies)
    assert set(outcomes(replies).values()) == {"FOUND"}


@pytest.mark.parametrize("status", [500, 401])
def test_a_service_that_answers_nobody_is_down_and_a_single_request_waits(lookups: Lookups, status: int) -> None:
    """Nothing else succeeds, so the request is not to blame."""
    service = FakeSessionService(scripted(*[HttpAnswer(status)] * 5, then=found()))
    with service, Running(lookups.config(service, IMPATIENT, breaker_threshold=3)) as run:
        lookups.ask(request())
        run.wait_for(lambda: down(run), "down")
        replies = lookups.wait_for(1, run.check)
    assert [(r.outcome, r.attempts) for r in replies] == [("FOUND", 1)]


def test_one_that_never_answers_is_failed_once_others_succeed(lookups: Lookups) -> None:
    """Though it alone has opened the breaker: it does not keep others from being tried."""
    service = FakeSessionService(lambda session, _: HttpAnswer(500) if session == "bad" else found())
    with service, Running(lookups.config(service, QUICK, breaker_threshold=3)) as run:
        lookups.ask(request("m-bad", "bad", user="u0"))
        run.wait_for(lambda: down(run), "down")
        lookups.ask_many(30)
        replies = lookups.wait_for(31, run.check)
    assert {money for money, outcome in outcomes(replies).items() if outcome != "FOUND"} == {"m-bad"}


def test_slow_answers_are_time_outs(lookups: Lookups) -> None:
    service = FakeSessionService(lambda *_: found(), latency_s=1.0)
    with service, Running(lookups.config(service, IMPATIENT, breaker_threshold=3)) as run:
        lookups.ask(request())
        run.wait_for(lambda: down(run), "down")
        service.latency_s = 0.0
        lookups.wait_for(1, run.check)


@pytest.mark.parametrize(("status", "as_date"), [(429, True), (503, False)])
def test_retry_after_is_honoured_by_all_calls(lookups: Lookups, status: int, as_date: bool) -> None:
    told: list[float] = []
    calls: list[float] = []

    def behave(session: str, before: int) -> HttpAnswer:
        calls.append(time.time())
        if session == "s0" and before == 0:
            told.append(time.time())
            retry_at = datetime.now(UTC) + timedelta(seconds=3)
            return HttpAnswer(
                status, headers={"Retry-After": format_datetime(retry_at, usegmt=True) if as_date else "1"}
            )
        return found()

    with FakeSessionService(behave) as service, Running(lookups.config(service, IMPATIENT)) as run:
        lookups.ask(request("m0", "s0"))
        run.wait_for(lambda: attempts(run, "too_many_requests" if status == 429 else "unavailable") > 0, "told")
        lookups.ask(request("m1", "s1", user="bob"))
        replies = lookups.wait_for(2, run.check)
    assert outcomes(replies) == {"m0": "FOUND", "m1": "FOUND"}
    assert min(calls[1:]) >= told[0] + (1.9 if as_date else 0.99)  # a date says whole seconds


def test_what_retry_after_may_say() -> None:
    assert retry_after_s("7", time.time()) == 7
    assert retry_after_s("0", time.time()) == 0
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT", time.time()) == 0
    far = retry_after_s(format_datetime(datetime.now(UTC) + timedelta(days=9), usegmt=True), time.time())
    assert far is not None
    assert far > MAX_HOLD_S
    for nothing in (None, "", "soon", "-1", "1.5", "²", "Wed, 99 Oct 2015 07:28:00 GMT"):
        assert retry_after_s(nothing, time.time()) is None


def test_calls_are_spread_as_the_rate_limit_says(lookups: Lookups) -> None:
    calls: list[float] = []

    def behave(_session: str, _before: int) -> HttpAnswer:
        calls.append(time.time())
        return found()

    with FakeSessionService(behave) as service, Running(lookups.config(service, rate_limit=20.0)) as run:
        asked = lookups.ask_many(20)
        lookups.wait_for(20, run.check)
    check_answered_once(asked, lookups.replies())
    assert max(calls) - min(calls) >= 0.8  # 19 waits of a twentieth of a second; never faster, however busy the machine


def test_a_bearer_token_is_read_again_when_it_is_renewed(lookups: Lookups, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    with FakeSessionService(lambda *_: found(), token="new") as service:
        config = ServiceConfig(service.url, bearer_token_file=token)
        with Running(lookups.config(service, service=config, breaker_threshold=2)) as run:
            lookups.ask(request())
            run.wait_for(lambda: down(run), "nobody is let in")
            token.write_text("new\n")
            assert outcomes(lookups.wait_for(1, run.check)) == {"m": "FOUND"}


def test_a_client_certificate_opens_a_service_that_wants_one(lookups: Lookups, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    cert, key = authority.issue("worker")
    with FakeSessionService(lambda *_: found(), tls=authority.server_context(asks_for_client=True)) as service:
        bare = ServiceConfig(service.url, ca_file=authority.cert)
        stranger = ServiceConfig(service.url, client_cert=cert, client_key=key)  # it knows no such authority
        for config in (bare, stranger):
            with Running(lookups.config(service, service=config, breaker_threshold=2)) as run:
                lookups.ask(request())
                run.wait_for(partial(down, run), "not let in")
        assert not service.calls
        known = ServiceConfig(service.url, ca_file=authority.cert, client_cert=cert, client_key=key)
        with Running(lookups.config(service, service=known, breaker_threshold=2)) as run:
            assert outcomes(lookups.wait_for(1, run.check)) == {"m": "FOUND"}


def test_no_reason_repeats_what_was_sent_or_received(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("half\n" + SECRET)  # which is no value of a header
    answer = f"HTTP/1.1 200 OK\r\n{SECRET}\r\n\r\n".encode()
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        def serve() -> None:
            with server.accept()[0] as caller:
                caller.recv(1000)
                caller.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        results = [asyncio.run(asked(config)) for config in (ServiceConfig(url), ServiceConfig(url, token))]
    invalid = "the answer is not valid HTTP (ClientResponseError)"
    assert results == [Unavailable(invalid), Unavailable("a header cannot be sent")]
    with pytest.raises(ConfigError) as refused:
        ServiceConfig(f"http://user:{SECRET}@h/?page=1").check()
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("part", "pause_s", "result"),
    [
        (b" ", 0.01, Unavailable("no answer within 0.3 s")),
        (b" " * 10_000, 0.0, Unusable(f"the answer has more than {MAX_BYTES} bytes", works=False)),
    ],
    ids=["slow", "endless"],
)
def test_a_body_without_end_is_not_read_for_ever(part: bytes, pause_s: float, result: CallResult) -> None:
    hung_up = threading.Event()

    def serve() -> None:
        with server.accept()[0] as caller, contextlib.suppress(OSError):
            caller.recv(1000)
            caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while not hung_up.wait(pause_s):
                caller.sendall(part)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        config = ServiceConfig(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert asyncio.run(asked(config, 0.3 if pause_s else 30.0)) == result
        hung_up.set()


async def asked(config: ServiceConfig, timeout_s: float = 30.0) -> CallResult:
    service = HttpService(config, 1)
    try:
        return await service.ask("/s1", timeout_s, lambda _body: "")
    finally:
        await service.close()


def test_a_worker_that_is_cut_off_says_so() -> None:
    cut = "from moneystate import log; from moneystate.cli import lookup_worker; log.set_up(); "
    cut += "lookup_worker._end_hard()"
    done = subprocess.run([sys.executable, "-c", cut], capture_output=True, text=True, check=False, timeout=90)
    (line,) = parsed(done.stderr)
    assert (line["level"], line["exit_code"], done.returncode) == ("error", 5, 5)


def test_a_wrong_set_up_is_refused_at_once(tmp_path: Path) -> None:
    empty, token = tmp_path / "empty", tmp_path / "token"
    empty.write_text("")
    token.write_text("token")
    for config in (
        ServiceConfig("http://host/sessions?id="),
        ServiceConfig("ftp://host"),
        ServiceConfig("http://"),
        ServiceConfig("http://host/{user_session_id}"),
        ServiceConfig("http://host:x/"),
        ServiceConfig("http://user:secret@host", bearer_token_file=token),
        ServiceConfig("http://host", client_cert=empty),
        ServiceConfig("http://host", client_cert=empty, client_key=empty),
        ServiceConfig("http://host", ca_file=empty),
        ServiceConfig("http://host", ca_file=tmp_path / "none"),
        ServiceConfig("http://host", bearer_token_file=empty),
        ServiceConfig("http://host", bearer_token_file=tmp_path / "none"),
    ):
        with pytest.raises(ConfigError):
            HttpService(config, 1)


def test_the_fake_services_answers_are_a_pure_function_of_session_and_seed() -> None:
    one, again, other = Knowledge(1, 0.2, 0.1), Knowledge(1, 0.2, 0.1), Knowledge(2, 0.2, 0.1)
    sessions = [f"s{n}" for n in range(2_000)]
    known = [one.country(s) for s in sessions]
    assert known == [again.country(s) for s in sessions] != [other.country(s) for s in sessions]
    assert 0.15 < known.count(None) / len(known) < 0.25
    statuses = [one(s, 0).status for s in sessions]
    assert 0.07 < statuses.count(500) / len(statuses) < 0.13
    assert {one(s, before).status for s in sessions[:1] for before in range(100)} >= {500}


def test_the_context_of_a_service_without_tls_settings_checks_certificates() -> None:
    assert tls_context(ServiceConfig("https://host")).verify_mode is ssl.CERT_REQUIRED
