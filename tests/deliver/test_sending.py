"""Requests to real servers: what comes to them, and what an attempt makes of what they answer."""

from __future__ import annotations

import asyncio
import base64
import gc
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from standardwebhooks import Webhook

from moneystate.deliver.addresses import Addresses
from moneystate.deliver.answers import readable
from moneystate.deliver.attempts import Answer, Request
from moneystate.deliver.envelopes import Format
from moneystate.deliver.requests import Message, NoSecret, request_of
from moneystate.deliver.rows import Auth, AuthKind, Endpoint
from moneystate.deliver.sending import Sender
from tests.deliver.made import DELIVERY, delivery
from tests.deliver.names import names
from tests.deliver.receivers import Receiver, receiver, talking
from tests.query.certificates import Pki

SIGNING = "whsec_" + base64.b64encode(b"k" * 32).decode()
ENDPOINT = Endpoint(
    "e1", "acme", "https://example.org/x?a=1", ("key",), Auth(AuthKind.BEARER, "token"), {"X-Region": "eu"}
)
SECRETS = {"key": SIGNING, "token": "s3cret-token", "password": "user:pass:word"}
LOOPBACK = Addresses(allowed=["127.0.0.0/8"])
NOW_MS = 1_790_000_000_000


def sent_to(path: str, addresses: Addresses = LOOPBACK, **changes: Any) -> tuple[Answer, Receiver]:
    """A request to a path of a receiver: the answer, and the receiver afterwards."""

    async def run() -> tuple[Answer, Receiver]:
        async with receiver() as server:
            sender = Sender(addresses, 10)
            given = {"headers": {"x": "1"}, "body": b"{}", "timeout_ms": 5_000, **changes}
            try:
                return await sender.send(Request(server.url + path, **given)), server
            finally:
                await sender.close()

    return asyncio.run(run())


def single(**changes: Any) -> Message:
    return Message("msg_1", [delivery(**changes)], None)


def test_a_single_event_comes_with_its_bytes_attributes_and_a_signature() -> None:
    now_ms = time.time_ns() // 1_000_000  # a receiver refuses old times

    async def run() -> Receiver:
        async with receiver() as server:
            sender = Sender(LOOPBACK, 10)
            endpoint = replace(ENDPOINT, url=server.url + "/ok?a=%2F")
            answer = await sender.send(request_of(single(), endpoint, SECRETS, now_ms))
            await sender.close()
            assert (answer.status, answer.text, answer.problem) == (200, "thanks", "")
            return server

    [one] = asyncio.run(run()).journal
    assert one.body == DELIVERY.body
    assert one.headers["ce-id"] == "order-1"
    assert one.headers["content-type"] == "application/json"
    assert one.headers["x-region"] == "eu"
    assert one.headers["authorization"] == "Bearer s3cret-token"
    assert one.headers["webhook-timestamp"] == str(now_ms // 1_000)
    assert not {"user-agent", "cookie", "accept"} & one.headers.keys()
    assert Webhook(SIGNING).verify(one.body, one.headers) == {"id": 1, "total": 1.5}


def test_a_batch_is_one_body_with_the_same_bytes_at_each_attempt() -> None:
    members = [delivery(), delivery(event_id="order-2")]
    made = [
        request_of(Message("msg_b", members, Format.NDJSON), replace(ENDPOINT, secrets=()), SECRETS, now)
        for now in (1, 9)
    ]
    assert made[0].body == made[1].body
    assert made[0].headers["content-type"] == "application/x-ndjson"
    assert made[0].headers["webhook-id"] == made[1].headers["webhook-id"] == "msg_b"
    assert made[0].body.count(b"\n") == 2


@pytest.mark.parametrize(
    ("auth", "name", "value"),
    [
        (Auth(), "authorization", None),
        (Auth(AuthKind.BASIC, "password"), "authorization", "Basic dXNlcjpwYXNzOndvcmQ="),
        (Auth(AuthKind.HEADER, "token", "X-Api-Key"), "X-Api-Key", "s3cret-token"),
    ],
)
def test_an_endpoint_is_authorized_as_its_row_says(auth: Auth, name: str, value: str | None) -> None:
    made = request_of(single(), replace(ENDPOINT, auth=auth), SECRETS, NOW_MS)
    assert made.headers.get(name) == value


@pytest.mark.parametrize(
    "secrets",
    [{"key": SIGNING}, {"token": "t"}, {"key": "whsec_short", "token": "t"}, {"key": SIGNING, "token": "a\r\nb"}],
)
def test_a_secret_without_a_value_that_fits_is_named_and_not_told(secrets: dict[str, str]) -> None:
    with pytest.raises(NoSecret) as caught:
        request_of(single(), ENDPOINT, secrets, NOW_MS)
    assert not any(value in str(caught.value) for value in secrets.values() if len(value) > 1)


def test_statuses_and_headers_are_taken_as_they_are_and_redirects_are_not_followed() -> None:
    assert sent_to("/status/503")[0].status == 503
    assert sent_to("/retry/7")[0].retry_after == "7"
    answer, server = sent_to("/redirect")
    assert (answer.status, len(server.journal)) == (307, 1)


def test_a_server_that_does_not_answer_is_left_after_the_time() -> None:
    answer, _ = sent_to("/hang", timeout_ms=200)
    assert (answer.status, answer.problem) == (None, "no answer within 200 ms")
    assert answer.took_ms >= 200


def test_a_connection_that_is_closed_and_an_answer_that_is_no_http_are_told() -> None:
    assert sent_to("/reset")[0].problem == "the connection was closed without an answer"

    async def run(answer: bytes) -> Answer:
        async with talking(answer) as url:
            sender = Sender(LOOPBACK, 1)
            try:
                return await sender.send(Request(url, {}, b"", 2_000))
            finally:
                await sender.close()

    for answer in (b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"):
        got = asyncio.run(run(answer))
        assert (got.status, got.problem.startswith("the answer is not valid HTTP")) == (None, True)


def test_little_is_read_of_bodies_that_are_huge_slow_or_packed() -> None:
    huge, _ = sent_to("/huge")
    assert (huge.status, huge.text) == (200, "x" * 500)
    drip, _ = sent_to("/drip")
    assert (drip.status, set(drip.text)) == (200, {"y"})
    assert len(drip.text) < 10
    packed, _ = sent_to("/packed")
    assert packed.status == 200
    assert len(packed.text) <= 103


def test_an_answer_shows_neither_secrets_nor_characters_that_control() -> None:
    answer, _ = sent_to("/echo", headers={"Authorization": "Bearer s3cret-token"}, secrets=["s3cret-token"])
    assert "s3cret-token" not in answer.text
    assert answer.text.startswith(" [31mBearer ***  ")


def test_an_answer_that_repeats_its_request_shows_no_basic_credentials() -> None:
    endpoint = replace(ENDPOINT, secrets=(), auth=Auth(AuthKind.BASIC, "password"))
    made = request_of(single(), endpoint, SECRETS, NOW_MS)
    repeated = f"you sent {made.headers['authorization']}"
    assert readable(repeated.encode(), made.secrets) == "you sent Basic ***"


def test_half_a_secret_at_the_end_of_an_answer_is_not_shown() -> None:
    assert readable(b"it is s3cret-to", ["s3cret-token"]) == "it is ***"
    assert readable(b"it is s3cret-token", ["s3cret-token", "ret-tok"]) == "it is ***"
    assert readable(b"abc", ["abc"]) == "abc"
    assert readable("\u202eok\x00é".encode(), []) == " ok é"


def test_an_address_of_this_network_is_refused_at_the_connection() -> None:
    answer, server = sent_to("/ok", Addresses())
    assert (answer.status, answer.problem) == (None, "its address is refused: not a public address")
    assert server.journal == []


def test_a_name_whose_address_is_refused_is_refused() -> None:
    answer, server = sent_to("/ok", Addresses(own=["127.0.0.1", "::1"]))
    assert answer.problem == "its address is refused: an address of this machine"
    by_name = asyncio.run(_once("http://localhost:9/", Addresses()))
    assert by_name.problem == "its address is refused: not a public address"
    assert server.journal == []


def test_a_connection_is_used_again_after_an_answer_that_was_read_to_its_end() -> None:
    async def run(path: str) -> int:
        async with receiver() as server:
            sender = Sender(LOOPBACK, 10)
            for _ in range(3):
                await sender.send(Request(server.url + path, {}, b"{}", 3_000))
            await sender.close()
            return len({one.port for one in server.journal})

    assert asyncio.run(run("/ok")) == 1
    assert asyncio.run(run("/huge")) == 3


@pytest.mark.parametrize("run_in", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_connections_are_counted_and_closed_after_a_request_when_they_are_scarce(run_in: Callable[..., Any]) -> None:
    async def run() -> list[tuple[int, bool]]:
        async with receiver() as server:
            sender, seen = Sender(LOOPBACK, 4), []
            for together in (1, 3, 1):
                requests = [Request(server.url + "/ok", {}, b"{}", 5_000) for _ in range(together)]
                await asyncio.gather(*map(sender.send, requests))
                gc.collect()
                seen.append((sender.connections.held, sender.connections.is_scarce))
            await sender.close()
            return seen

    # The second time, two are scarce already when the third request begins: it closes its own.
    assert run_in(run()) == [(1, False), (2, True), (2, True)]


def test_the_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    assert sent_to("/ok")[0].status == 200


@pytest.mark.parametrize("run_in", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_certificate_that_nobody_trusts_is_a_failure(run_in: Callable[..., Any], tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.cert, pki.key)

    async def run() -> tuple[Answer, Answer]:
        trusting = ssl.create_default_context(cafile=pki.ca)
        async with receiver(context) as server:
            return await _answer(server.url, None), await _answer(server.url, trusting)

    refused, taken = run_in(run())
    assert (refused.status, refused.problem) == (None, "the TLS connection failed")
    assert taken.status == 200


async def _answer(url: str, tls: ssl.SSLContext | None) -> Answer:
    sender = Sender(LOOPBACK, 1, tls)
    try:
        return await sender.send(Request(url, {}, b"{}", 3_000))
    finally:
        await sender.close()


async def _once(url: str, addresses: Addresses) -> Answer:
    sender = Sender(addresses, 1)
    try:
        return await sender.send(Request(url, {}, b"{}", 3_000))
    finally:
        await sender.close()


def test_nobody_waits_for_a_server_that_hangs() -> None:
    async def run() -> list[Answer]:
        async with receiver() as server:
            sender = Sender(LOOPBACK, 50)
            paths = ["/hang"] * 20 + ["/ok"] * 20
            tasks = [sender.send(Request(server.url + path, {}, b"{}", 1_500)) for path in paths]
            answers = await asyncio.gather(*tasks)
            await sender.close()
            return answers

    answers = asyncio.run(run())
    assert [one.status for one in answers] == [None] * 20 + [200] * 20


def test_nobody_waits_for_a_name_without_an_answer() -> None:
    async def run() -> list[Answer]:
        async with receiver() as server, names("quick") as port:
            sender = Sender(
                LOOPBACK, 100, resolver=lambda: aiohttp.AsyncResolver(nameservers=["127.0.0.1"], udp_port=port)
            )
            to = server.url.rpartition(":")[2]
            hosts = [f"slow{n}.example.com" for n in range(60)] + ["quick.example.com"]
            tasks = [sender.send(Request(f"http://{host}:{to}/ok", {}, b"{}", 1_500)) for host in hosts]
            answers = await asyncio.gather(*tasks)
            await sender.close()
            return answers

    answers = asyncio.run(run())
    assert [one.status for one in answers] == [None] * 60 + [200]
