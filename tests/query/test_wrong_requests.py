"""Requests that cannot be answered: the right status and reason, no crash, no leak."""

from __future__ import annotations

import os
import socket
from typing import Any

import grpc
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.serving.client import Client
from moneystate.serving.requests import MAX_BATCH, MAX_PAGE, MAX_TEXT_BYTES
from moneystate.serving.state.contract import MAX_KEY_BYTES
from moneystate.state.v1 import header_pb2, status_pb2
from moneystate.state.v1 import state_pb2 as s
from tests.budget import examples
from tests.query import questions
from tests.query.serving import Server, failure, wait_for

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LONG = "x" * (MAX_TEXT_BYTES + 1)

NAME = s.RecordName(state="user", key="ann")
MALFORMED: list[tuple[str, Any]] = [
    ("State.Get", s.GetRequest(name=s.RecordName(state=LONG, key="ann"))),
    ("State.Get", s.GetRequest(name=s.RecordName(state="user", key="\N{EURO SIGN}" * MAX_KEY_BYTES))),
    ("State.Get", s.GetRequest(name=s.RecordName(state="user", key="ann", id="x"))),
    ("State.BatchGet", s.BatchGetRequest()),
    ("State.BatchGet", s.BatchGetRequest(names=[NAME] * (MAX_BATCH + 1))),
    ("State.BatchGet", s.BatchGetRequest(names=[NAME, s.RecordName()])),
    ("State.Call", s.CallRequest(query="session", arguments='{"id": 1}')),
    ("State.List", s.ListRequest(state="user", keys=s.KeyRange(prefix=LONG))),
    ("State.List", s.ListRequest(state="user", page_size=-1)),
    ("State.List", s.ListRequest(state="user", page_size=MAX_PAGE + 1)),
    ("State.ListStored", s.ListStoredRequest(page_size=-1)),
    ("State.ListStored", s.ListStoredRequest(page_size=MAX_PAGE + 1)),
    ("State.Explain", s.ExplainRequest()),
    ("State.Diff", s.DiffRequest()),
    ("State.Forget", s.ForgetRequest(key="ann", request_id=LONG)),
]


@pytest.mark.parametrize("call", MALFORMED, ids=lambda call: str(call[0]))
def test_a_malformed_request_is_an_invalid_argument(client: Client, call: tuple[str, Any]) -> None:
    assert failure(lambda: client.call(*call)) == ("INVALID_ARGUMENT", "MALFORMED")


@pytest.mark.parametrize(
    ("pinned", "reason"),
    [
        (questions.at(3), "FUTURE"),
        (questions.at(1, epoch="another"), "FUTURE"),
        (header_pb2.At(event_time_ms=1), "PRUNED"),
    ],
    ids=["a later batch", "another epoch", "an earlier time"],
)
def test_versions_that_are_not_here_are_out_of_range(asking: Client, pinned: Any, reason: str) -> None:
    request = questions.get("ann", at=pinned)
    assert failure(lambda: asking.call(*request)) == ("OUT_OF_RANGE", reason)


@pytest.mark.parametrize("batch", [-2, 1], ids=["no batch", "no epoch"])
def test_a_version_that_is_none_is_malformed(asking: Client, batch: int) -> None:
    request = questions.get("ann", at=questions.at(batch, epoch="" if batch == 1 else "another"))
    assert failure(lambda: asking.call(*request)) == ("INVALID_ARGUMENT", "MALFORMED")


def test_a_watch_from_a_version_that_is_not_here_is_out_of_range(asking: Client) -> None:
    watch = questions.watch(after=questions.at(99).version)
    assert failure(lambda: next(asking.stream(*watch))) == ("OUT_OF_RANGE", "FUTURE")


def page_token(client: Client) -> str:
    token = client.call(*questions.listing(page_size=10)).next_page_token
    assert token
    return str(token)


def test_a_page_token_of_another_request_is_refused(asking: Client) -> None:
    token = page_token(asking)
    for other in (
        questions.listing(prefix="user-", page_token=token),
        questions.other_listing(page_token=token),
    ):
        assert failure(lambda wrong=other: asking.call(*wrong)) == ("INVALID_ARGUMENT", "BAD_PAGE_TOKEN")


@given(data=st.data())
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_page_token_that_was_tampered_with_is_refused(asking: Client, data: st.DataObject) -> None:
    token = page_token(asking)
    where = data.draw(st.integers(0, len(token) - 1))
    by = data.draw(st.sampled_from("ABCxyz019-_=+/ \N{EURO SIGN}").filter(lambda c: c != token[where]))
    changed = token[:where] + by + token[where + 1 :]
    request = questions.listing(page_token=changed)
    assert failure(lambda: asking.call(*request)) == ("INVALID_ARGUMENT", "BAD_PAGE_TOKEN")


def test_a_request_over_a_mebibyte_is_refused(asking: Client) -> None:
    request = questions.get("x" * (2 << 20))
    assert failure(lambda: asking.call(*request))[0] == "RESOURCE_EXHAUSTED"


def test_bytes_that_are_no_request_and_methods_that_are_not_there(market_server: Server) -> None:
    with grpc.insecure_channel(market_server.address) as channel:
        there = questions.path(questions.get("ann")[0])
        junk: Any = channel.unary_unary(there)
        assert failure(lambda: junk(b"\xff\xff\xff", timeout=10))[0] in ("INTERNAL", "UNKNOWN")
        missing: Any = channel.unary_unary(f"{there}Dropped")
        assert failure(lambda: missing(b"", timeout=10))[0] == "UNIMPLEMENTED"


def test_a_deadline_that_has_passed_ends_the_call(asking: Client) -> None:
    asking.timeout_s = 0.000_001
    assert failure(lambda: asking.call(*questions.listing(page_size=1000)))[0] == "DEADLINE_EXCEEDED"


def test_random_bytes_at_the_port_do_no_harm_and_leak_nothing(server: Server, client: Client) -> None:
    def throw(connections: int) -> None:
        for n in range(connections):
            with socket.create_connection(_split(server.address)) as raw:
                raw.sendall(os.urandom(1 + 37 * n % 4096) if n % 2 else HTTP2_PREFACE + os.urandom(64))

    def descriptors() -> int:
        return sum(p.num_fds() for p in _processes(server))

    throw(50)  # what is made once
    quiet = descriptors()
    memory = sum(p.memory_info().rss for p in _processes(server))
    throw(400)
    wait_for(lambda: descriptors() <= quiet + 5, lambda: f"{descriptors()} descriptors, {quiet} before")
    assert sum(p.memory_info().rss for p in _processes(server)) < memory + (64 << 20)
    assert client.call("Status.GetStatus", status_pb2.GetStatusRequest()).caught_up


def _processes(server: Server) -> list[psutil.Process]:
    whole = psutil.Process(server.process.pid)
    return [whole, *whole.children(recursive=True)]


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
