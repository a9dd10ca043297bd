"""Signatures, headers, envelopes and batches."""

from __future__ import annotations

import base64
import json
import time
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from moneystate.deliver import headers
from moneystate.deliver.batches import Cut, Limits, Waiting, cut, halves
from moneystate.deliver.envelopes import Format, body, body_bytes, envelope
from moneystate.deliver.signing import key_of, signed
from tests.deliver.made import DELIVERY, delivery

OLD = "whsec_" + base64.b64encode(b"o" * 24).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"x" * 32).decode()


def now_ms() -> int:
    return int(time.time() * 1000)


def test_a_receiver_verifies_with_the_old_secret_and_the_new_one() -> None:
    made = signed([key_of(OLD), key_of(NEW)], "msg_1", now_ms(), DELIVERY.body)
    for secret in (OLD, NEW):
        assert Webhook(secret).verify(DELIVERY.body, made) == {"id": 1, "total": 1.5}
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(DELIVERY.body, made)
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(b'{"id": 2}', made)


def test_a_request_without_secrets_has_no_signature() -> None:
    assert signed([], "msg_1", 5_999, b"") == {"webhook-id": "msg_1", "webhook-timestamp": "5"}


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_***", "whsec_" + "AAAA" * 3, "whsec_" + "AAAA" * 30, "whsec_é"])
def test_a_secret_that_is_not_one_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="a secret") as caught:
        key_of(text)
    assert not text[6:] or text[6:] not in str(caught.value)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_attributes_are_percent_encoded_in_headers(event_id: str) -> None:
    made = headers.event_headers(delivery(event_id=event_id))
    assert unquote(made["ce-id"], errors="strict") == event_id
    assert all(0x20 < ord(char) < 0x7F and char != '"' for char in made["ce-id"])


def test_a_single_event_has_its_attributes_as_headers() -> None:
    assert headers.event_headers(delivery(source="", department="é 1%")) == {
        "ce-specversion": "1.0", "ce-id": "order-1", "ce-source": "orders", "ce-type": "order.placed",
        "ce-tenant": "t1", "ce-department": "%C3%A9%201%25", "ce-sequence": "0007",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["Host", "webhook-id", "WEBHOOK-X", "ce-id", "Connection", "te", "Transfer-Encoding", "Proxy-Authorization",
     "content-length", "a b", "", "x\r\ny", "é", "x:"],
)  # fmt: skip
def test_reserved_and_hop_by_hop_headers_are_refused(name: str) -> None:
    assert headers.refusal(name, "v")


def test_a_header_of_the_customer_is_taken_if_its_value_fits_in_a_line() -> None:
    assert headers.refusal("X-Region", "eu 1") == ""
    assert headers.refusal("X-Region", "eu\r\nhost: other")


def test_an_envelope_has_the_bytes_of_the_event() -> None:
    made = envelope(DELIVERY)
    assert DELIVERY.body in made
    assert json.loads(made) == {
        "specversion": "1.0", "id": "order-1", "source": "/shop", "type": "order.placed", "tenant": "t1",
        "sequence": "0007", "datacontenttype": "application/json", "data": {"id": 1, "total": 1.5},
    }  # fmt: skip


@pytest.mark.parametrize("format", Format)
@pytest.mark.parametrize("number", [0, 1, 3])
def test_the_size_of_a_body_is_known_before_it_is_made(format: Format, number: int) -> None:
    envelopes = [envelope(DELIVERY)] * number
    made = body(envelopes, format)
    assert len(made) == body_bytes(sum(map(len, envelopes)), number, format)


def test_a_body_is_an_array_or_a_line_for_each_event() -> None:
    envelopes = [envelope(DELIVERY), envelope(delivery(event_id="order-2"))]
    assert [one["id"] for one in json.loads(body(envelopes, Format.ARRAY))] == ["order-1", "order-2"]
    lines = body(envelopes, Format.NDJSON).splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["order-1", "order-2"]


LIMITS = Limits(max_messages=3, max_bytes=100, max_wait_ms=50)


def test_a_full_batch_is_due_at_once_and_another_when_its_first_message_has_waited() -> None:
    assert cut([], LIMITS, Format.ARRAY) is None
    assert cut([Waiting(10, 5), Waiting(10, 9)], LIMITS, Format.ARRAY) == Cut(2, 55)
    assert cut([Waiting(10, 5)] * 4, LIMITS, Format.ARRAY) == Cut(3, 5)
    assert cut([Waiting(49, 5)] * 3, LIMITS, Format.ARRAY) == Cut(1, 5)  # 2 + 49 + 49 and a comma: 101
    assert cut([Waiting(500, 5)] * 2, LIMITS, Format.ARRAY) == Cut(1, 5)


def test_a_batch_by_tenant_ends_before_another_tenant() -> None:
    waiting = [Waiting(10, 5, "a"), Waiting(10, 6, "a"), Waiting(10, 7, "b")]
    assert cut(waiting, LIMITS, Format.ARRAY, by_tenant=True) == Cut(2, 5)
    assert cut(waiting, LIMITS, Format.ARRAY) == Cut(3, 5)


@given(st.lists(st.integers(0, 150), min_size=1), st.sampled_from(Format))
def test_no_batch_of_several_messages_is_larger_than_allowed(sizes: list[int], format: Format) -> None:
    waiting = [Waiting(size, 0) for size in sizes]
    while waiting:
        made = cut(waiting, LIMITS, format)
        assert made is not None
        assert 1 <= made.members <= LIMITS.max_messages
        size = sum(message.bytes for message in waiting[: made.members])
        assert made.members == 1 or body_bytes(size, made.members, format) <= LIMITS.max_bytes
        waiting = waiting[made.members :]


def test_a_batch_too_large_for_its_receiver_is_cut_in_two_down_to_single_messages() -> None:
    assert [halves(members) for members in (1, 2, 3, 1_000)] == [None, (1, 1), (2, 1), (500, 500)]
