"""The client of a schema registry: what it waits for, what it tries again, and what stops the batch."""

from __future__ import annotations

import pytest

from moneystate.engine.processor import Rejected
from moneystate.errors import BrokerError, UnknownSchemaId
from moneystate.registry.client import ANSWERS, ID_WAIT_S, LONGEST_WAIT_S, RegistryClient, RegistryUnavailable
from moneystate.registry.confluent import ConfluentFormat
from tests.formats.registry_server import SUBJECT, RegistryServer, made
from tests.formats.values import BY_NAME, SET, framed, payment, reason

PAYMENT_SOURCE = BY_NAME["PaymentEvent"].source


def test_an_id_that_the_registry_does_not_know_yet_is_waited_for(registry: RegistryServer) -> None:
    value = framed(1000, payment(SET)[10:])
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            assert registry.add(PAYMENT_SOURCE) == 1000

    confluent = ConfluentFormat(SET, RegistryClient(registry.url, sleep=sleep), SUBJECT)
    assert confluent(value) == payment(SET)
    assert waits == [0.25, 0.5, 1.0]
    assert registry.state.requests == ["GET /schemas/ids/1000"] * 4


def test_an_id_that_stays_unknown_ends_the_batch_and_is_no_verdict(registry: RegistryServer) -> None:
    """A dead letter here and an event in a replay would make the output depend on the registry's clock."""
    waits: list[float] = []
    confluent, value = made(registry, waits), framed(1000, payment(SET)[10:])
    with pytest.raises(UnknownSchemaId, match="1000"):
        confluent(value)
    assert ID_WAIT_S <= sum(waits) < ID_WAIT_S + LONGEST_WAIT_S
    assert max(waits) == LONGEST_WAIT_S
    assert registry.add(PAYMENT_SOURCE) == 1000
    assert confluent(value) == payment(SET)


@pytest.mark.parametrize("schema_id", [2**31, 2**32 - 1])
def test_an_id_that_no_registry_gives_is_unknown_without_asking(registry: RegistryServer, schema_id: int) -> None:
    assert reason(made(registry), framed(schema_id, b"")) == "unknown_schema"
    assert registry.state.requests == []


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 429])
def test_a_short_failure_is_tried_again(registry: RegistryServer, status: int) -> None:
    waits: list[float] = []
    registry.state.fail_next = [(status, b"busy")] * 3
    value = framed(registry.add(PAYMENT_SOURCE), payment(SET)[10:])
    assert made(registry, waits)(value) == payment(SET)
    assert waits == [0.25, 0.5, 1.0]


def test_a_long_failure_stops_the_batch_and_is_forgotten(registry: RegistryServer) -> None:
    registry.state.fail_next = [(503, b"")] * 4
    value = framed(registry.add(PAYMENT_SOURCE), payment(SET)[10:])
    confluent = made(registry)
    with pytest.raises(RegistryUnavailable) as stopped:
        confluent(value)
    assert isinstance(stopped.value, BrokerError)
    assert not isinstance(stopped.value, Rejected)
    assert len(registry.state.requests) == 4
    assert confluent(value) == payment(SET)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"<html>no such page</html>"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        (404, b'["error_code", 40403]'),
        (401, b""),
        (403, b'{"error_code": 40301}'),
        (302, b""),
        (200, b"<html>log in</html>"),
        (200, b'{"schema": 7}'),
        (200, b"{}"),
    ],
)
def test_any_answer_that_is_not_the_registrys_own_stops_the_batch(
    registry: RegistryServer, status: int, body: bytes
) -> None:
    registry.state.fail_next = [(status, body)]
    value = framed(registry.add(PAYMENT_SOURCE), payment(SET)[10:])
    confluent = made(registry)
    with pytest.raises(RegistryUnavailable):
        confluent(value)
    assert len(registry.state.requests) == 1
    assert confluent(value) == payment(SET)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (409, b'{"error_code": 409, "message": "incompatible"}'),
        (422, b""),
        (200, b'{"id": true}'),
        (200, b'{"id": -1}'),
    ],
)
def test_a_schema_that_the_registry_refuses_stops_the_batch(registry: RegistryServer, status: int, body: bytes) -> None:
    registry.state.fail_next = [(status, body)]
    with pytest.raises(RegistryUnavailable):
        made(registry).from_canonical(payment(SET))
    assert registry.state.schemas == {}


def test_a_registry_that_is_down_stops_the_batch(registry: RegistryServer) -> None:
    waits: list[float] = []
    registry.stop()
    with pytest.raises(RegistryUnavailable):
        made(registry, waits)(framed(1000, payment(SET)[10:]))
    with pytest.raises(RegistryUnavailable):
        made(registry).from_canonical(payment(SET))
    assert waits == [0.25, 0.5, 1.0]


def test_user_and_password_come_from_the_url_and_stay_out_of_messages(registry: RegistryServer) -> None:
    registry.state.credentials = "us@er:se:cret"
    good = RegistryClient(f"http://us%40er:se%3Acret@{registry.address}/")
    assert good.register(SUBJECT, '"string"') == 1000
    assert good.schema(1000) is not None
    ANSWERS.clear()
    with pytest.raises(RegistryUnavailable) as stopped:
        RegistryClient(f"http://us%40er:wrong-one@{registry.address}").schema(1000)
    assert "wrong-one" not in str(stopped.value)


def test_a_path_before_the_calls_is_kept(registry: RegistryServer) -> None:
    registry.state.fail_next = [(400, b"")]
    client = RegistryClient(registry.url + "/apis/ccompat/v7/")
    with pytest.raises(RegistryUnavailable):
        client.schema(1)
    assert registry.state.requests == ["GET /apis/ccompat/v7/schemas/ids/1"]
