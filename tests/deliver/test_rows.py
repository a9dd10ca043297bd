"""Rows of endpoints and subscriptions, and the records of deliveries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moneystate.deliver.batches import Limits
from moneystate.deliver.envelopes import Format
from moneystate.deliver.rows import AuthKind, InvalidRow, Mode, Ordering, UrlRules, endpoint, subscription

ENDPOINT = {"endpointId": "e1", "owner": "acme", "url": "https://example.com/hook?a=1"}
SUBSCRIPTION = {"subscriptionId": "s1", "endpointId": "e1", "owner": "acme"}


def row(base: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({**base, **more}).encode()


def test_an_endpoint_has_the_defaults_of_what_is_absent() -> None:
    made = endpoint(row(ENDPOINT, maxInFlight=None), UrlRules())
    assert (made.max_in_flight, made.rate_per_second, made.timeout_ms) == (4, None, 15_000)
    assert (made.secrets, made.auth.kind, made.is_paused, made.is_deleted) == ((), AuthKind.NONE, False, False)


def test_an_endpoint_names_its_secrets() -> None:
    auth = {"kind": "header", "secret": "token", "header": "X-Key"}
    made = endpoint(row(ENDPOINT, secrets=["a", "b.2"], auth=auth), UrlRules())
    assert made.secrets == ("a", "b.2")
    assert (made.auth.kind, made.auth.secret, made.auth.header) == (AuthKind.HEADER, "token", "X-Key")


@pytest.mark.parametrize(
    "change",
    [
        {"endpointId": ""}, {"owner": None}, {"url": "http://example.com"}, {"url": "ftp://example.com"},
        {"url": "https://user:word@example.com"}, {"url": "https://@example.com"}, {"url": "https:///path"},
        {"url": "https://example.com/ a"}, {"url": "https://example.com:99999"}, {"url": "https://e.com/" + "a" * 3000},
        {"secrets": ["../../etc/passwd"]}, {"secrets": ["a/b"]}, {"secrets": "a"}, {"secrets": [".."]},
        {"secrets": ["a"] * 6}, {"auth": {"kind": "bearer"}}, {"auth": {"kind": "digest", "secret": "a"}},
        {"auth": {"kind": "header", "secret": "a", "header": "Host"}}, {"headers": {"Host": "other"}},
        {"headers": {"X-A": "1\r\nY: 2"}}, {"headers": {"X-A": "1", "x-a": "2"}}, {"headers": {"X-A": 1}},
        {"maxInFlight": 0}, {"maxInFlight": True}, {"ratePerSecond": 0}, {"ratePerSecond": "1"}, {"timeoutMs": 10**9},
        {"paused": "no"},
    ],
)  # fmt: skip
def test_an_endpoint_that_breaks_a_rule_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRow):
        endpoint(row(ENDPOINT, **change), UrlRules())


def test_http_is_taken_where_it_is_allowed() -> None:
    assert endpoint(row(ENDPOINT, url="http://localhost:8080/"), UrlRules(allow_http=True)).url


@pytest.mark.parametrize("value", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_no_row(value: bytes) -> None:
    with pytest.raises(InvalidRow):
        subscription(value)


def test_a_subscription_says_how_its_messages_are_sent() -> None:
    made = subscription(row(SUBSCRIPTION, mode="batch", batchFormat="ndjson", maxMessages=5, ordering="tenant"))
    assert (made.mode, made.format, made.ordering) == (Mode.BATCH, Format.NDJSON, Ordering.TENANT)
    assert made.limits == Limits(max_messages=5)
    assert made.is_active


@pytest.mark.parametrize("change", [{"mode": "many"}, {"ordering": 1}, {"maxMessages": 0}, {"active": 1}])
def test_a_subscription_that_breaks_a_rule_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRow):
        subscription(row(SUBSCRIPTION, **change))
