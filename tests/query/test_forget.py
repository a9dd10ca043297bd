"""ForgetUser writes a request to the log that any reader of the schema understands."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.query.v1 import admin_pb2
from moneystate.serving.client import Client
from services.enrichment.serving.admin_service import forget_user_requested
from tests.query.serving import Server, failure
from tests.reference.builder import ms
from tests.reference.kafka_log import read_log

MAX_MS = 253_402_300_799_999  # the end of the year 9999, where Python's calendar ends
SCHEMA = Path(__file__).resolve().parents[2] / "avro" / "events" / "ForgetUserRequested.avsc"


def decode(event: bytes) -> Any:
    schema = fastavro.parse_schema(json.loads(SCHEMA.read_text()))
    fingerprint = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")
    assert event[:10] == b"\xc3\x01" + bytes.fromhex(fingerprint)
    body = io.BytesIO(event[10:])
    decoded = fastavro.schemaless_reader(body, schema, None)
    assert not body.read()
    return decoded


@given(st.text(), st.text(), st.integers(0, MAX_MS), st.text())
def test_the_event_is_that_of_the_schema(request_id: str, user: str, at_ms: int, by: str) -> None:
    decoded = decode(forget_user_requested(request_id, user, at_ms, by))
    assert (decoded["id"], decoded["userId"], decoded["requestedBy"]) == (request_id, user, by)


def test_the_request_is_in_the_log_at_the_watermark(server: Server, client: Client) -> None:
    request = admin_pb2.ForgetUserRequest(user_id="user-299", request_id="r-1")
    answer = client.call("Admin.ForgetUser", request)
    assert (answer.request_id, answer.request.topic) == ("r-1", "user-events")
    assert answer.request.event_time_ms == ms(29)
    cluster = server.job.cluster
    records, _ = read_log(cluster.bootstrap_servers, ["user-events"], cluster.prefix)
    (record,) = [r for r in records if r.offset == answer.request.offset]
    assert record.key == b"user-299"
    assert record.value is not None
    event = decode(record.value)
    assert (event["id"], event["userId"]) == ("r-1", "user-299")
    assert event["requestedBy"]


def test_without_an_id_one_is_made_up(client: Client) -> None:
    answers = [client.call("Admin.ForgetUser", admin_pb2.ForgetUserRequest(user_id="user-298")) for _ in range(2)]
    assert len({a.request_id for a in answers} - {""}) == 2


def test_there_is_no_proof_before_it_is_done(client: Client) -> None:
    request = admin_pb2.GetForgottenRequest(user_id="user-297")
    assert failure(lambda: client.call("Admin.GetForgotten", request)) == ("NOT_FOUND", "NOT_FOUND")


@pytest.mark.parametrize("call", ["Admin.ForgetUser", "Admin.GetForgotten"])
def test_nobody_is_not_forgotten(client: Client, call: str) -> None:
    request: Any = {
        "Admin.ForgetUser": admin_pb2.ForgetUserRequest,
        "Admin.GetForgotten": admin_pb2.GetForgottenRequest,
    }
    assert failure(lambda: client.call(call, request[call]())) == ("INVALID_ARGUMENT", "MALFORMED")
