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

from moneystate.query.v1 import query_pb2
from moneystate.serving.client import Client
from moneystate.serving.requests import MAX_BATCH, MAX_PAGE, MAX_TEXT_BYTES
from moneystate.state.v1 import header_pb2, status_pb2
from tests.budget import examples
from tests.query.contracts import Told
from tests.query.serving import Server, failure, wait_for

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LONG = "x" * (MAX_TEXT_BYTES + 1)

MALFORMED: list[tuple[str, Any]] = [
    ("Query.GetUser", query_pb2.GetUserRequest()),
    ("Query.GetUser", query_pb2.GetUserRequest(user_id=LONG)),
    ("Query.GetUser", query_pb2.GetUserRequest(user_id="\N{EURO SIGN}" * MAX_TEXT_BYTES)),
    ("Query.BatchGetUsers", query_pb2.BatchGetUsersRequest()),
    ("Query.BatchGetUsers", query_pb2.BatchGetUsersRequest(user_ids=["ann"] * (MAX_BATCH + 1))),
    ("Query.BatchGetUsers", query_pb2.BatchGetUsersRequest(user_ids=["ann", ""])),
    ("Query.GetSession", query_pb2.GetSessionRequest()),
    ("Query.ListUsers", query_pb2.ListUsersRequest(prefix=LONG)),
    ("Query.ListUsers", query_pb2.ListUsersRequest(page_size=-1)),
    ("Query.ListUsers", query_pb2.ListUsersRequest(page_size=MAX_PAGE + 1)),
    ("Query.ListEntries", query_pb2.ListEntriesRequest(prefix=LONG)),
    ("Query.ListEntries", query_pb2.ListEntriesRequest(page_size=MAX_PAGE + 1)),
    ("Query.ListPending", query_pb2.ListPendingRequest(reason=99)),  # type: ignore[arg-type]
    ("Query.Explain", query_pb2.ExplainRequest()),
    ("Query.Explain", query_pb2.ExplainRequest(user_field=query_pb2.UserFieldOf(user_id="ann"))),
    ("Query.Diff", query_pb2.DiffRequest()),
    ("Query.DiffUser", query_pb2.DiffUserRequest(user_id="ann")),
]


@pytest.mark.parametrize("call", MALFORMED, ids=lambda call: str(call[0]))
def test_a_malformed_request_is_an_invalid_argument(client: Client, call: tuple[str, Any]) -> None:
    assert failure(lambda: client.call(*call)) == ("INVALID_ARGUMENT", "MALFORMED")


@pytest.mark.parametrize(
    ("pinned", "reason"),
    [
        (lambda contract: contract.at(3), "FUTURE"),
        (lambda contract: contract.at(1, epoch="another"), "FUTURE"),
        (lambda _: header_pb2.At(event_time_ms=1), "PRUNED"),
    ],
    ids=["a later batch", "another epoch", "an earlier time"],
)
def test_versions_that_are_not_here_are_out_of_range(told: Told, asking: Client, pinned: Any, reason: str) -> None:
    request = told.contract.get("ann", at=pinned(told.contract))
    assert failure(lambda: asking.call(*request)) == ("OUT_OF_RANGE", reason)


@pytest.mark.parametrize("batch", [-2, 1], ids=["no batch", "no epoch"])
def test_a_version_that_is_none_is_malformed(told: Told, asking: Client, batch: int) -> None:
    request = told.contract.get("ann", at=told.contract.at(batch, epoch="" if batch == 1 else None))
    assert failure(lambda: asking.call(*request)) == ("INVALID_ARGUMENT", "MALFORMED")


def test_a_watch_from_a_version_that_is_not_here_is_out_of_range(told: Told, asking: Client) -> None:
    watch = told.contract.watch(after=told.contract.at(99).version)
    assert failure(lambda: next(asking.stream(*watch))) == ("OUT_OF_RANGE", "FUTURE")


def page_token(told: Told, client: Client) -> str:
    token = client.call(*told.contract.listing(page_size=10)).next_page_token
    assert token
    return str(token)


def test_a_page_token_of_another_request_is_refused(told: Told, asking: Client) -> None:
    token = page_token(told, asking)
    for other in (
        told.contract.listing(prefix="user-", page_token=token),
        told.contract.other_listing(page_token=token),
    ):
        assert failure(lambda wrong=other: asking.call(*wrong)) == ("INVALID_ARGUMENT", "BAD_PAGE_TOKEN")


@given(data=st.data())
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_page_token_that_was_tampered_with_is_refused(told: Told, asking: Client, data: st.DataObject) -> None:
    token = page_token(told, asking)
    where = data.draw(st.integers(0, len(token) - 1))
    by = data.draw(st.sampled_from("ABCxyz019-_=+/ \N{EURO SIGN}").filter(lambda c: c != token[where]))
    changed = token[:where] + by + token[where + 1 :]
    request = told.contract.listing(page_token=changed)
    assert failure(lambda: asking.call(*request)) == ("INVALID_ARGUMENT", "BAD_PAGE_TOKEN")


def test_a_request_over_a_mebibyte_is_refused(told: Told, asking: Client) -> None:
    request = told.contract.get("x" * (2 << 20))
    assert failure(lambda: asking.call(*request))[0] == "RESOURCE_EXHAUSTED"


def test_bytes_that_are_no_request_and_methods_that_are_not_there(told: Told) -> None:
    with grpc.insecure_channel(told.server.address) as channel:
        there = told.contract.path(told.contract.get("ann")[0])
        junk: Any = channel.unary_unary(there)
        assert failure(lambda: junk(b"\xff\xff\xff", timeout=10))[0] in ("INTERNAL", "UNKNOWN")
        missing: Any = channel.unary_unary(f"{there}Dropped")
        assert failure(lambda: missing(b"", timeout=10))[0] == "UNIMPLEMENTED"


def test_a_deadline_that_has_passed_ends_the_call(told: Told, asking: Client) -> None:
    asking.timeout_s = 0.000_001
    assert failure(lambda: asking.call(*told.contract.listing(page_size=1000)))[0] == "DEADLINE_EXCEEDED"


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
