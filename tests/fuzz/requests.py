"""Requests of callers: their bodies, headers and tokens' claims, and frames of WebSockets."""

from __future__ import annotations

import gzip
import json
from functools import cache, partial
from typing import Any, Final

from hypothesis import strategies as st

from moneystate.errors import JobError
from moneystate.ingest.bodies import Kind, decompressed, documents, kind_of
from moneystate.ingest.keys import decode, request_key
from moneystate.ingest.refusals import Refused
from moneystate.ingest.rights import rights_of
from moneystate.ingest.sockets import frame_of
from moneystate.ingest.topics import Settings, Topic
from moneystate.runtime.plans import plan_of
from moneystate.serving.tokens import BadToken
from tests.fuzz.mutation import JSON, mutated, reshaped
from tests.fuzz.target import result_of, target

MOST: Final = 10_000
PAYMENT: Final = {"paymentId": "p", "orderId": "o", "cents": 5, "takenAt": "2026-01-31T10:00:00Z"}
BODIES = st.sampled_from([json.dumps(PAYMENT).encode(), json.dumps([PAYMENT, {}]).encode(), b"{}\n[]\n\n5"])
KEY_RECORD: Final = b'{"body":"c9945eacab051194dc0cd16811f70eb0","status":202,"answer":"{}"}'


@cache
def topic(format: str) -> Topic:
    return Topic(plan_of("examples.orders.orders:service"), "payments", Settings("", format, MOST))


def write(document: Any) -> None:
    """The record of a document, or all that is wrong with it."""
    for format in ("json", "avro"):
        record = result_of(partial(topic(format).outgoing, document, None), Refused)
        assert record is None or record.value


@target("requests.body", st.tuples(st.sampled_from([*Kind]), mutated(BODIES)))
def read_body(given: tuple[Kind, bytes]) -> None:
    parts = result_of(lambda: documents(*given, 5), Refused)
    for document in parts.items if parts is not None else ():
        write(document)


@target("requests.record", reshaped(st.just(PAYMENT).map(dict)))
def read_record(document: Any) -> None:
    parts = result_of(lambda: documents(Kind.json, json.dumps(document).encode(errors="replace"), 5), Refused)
    for one in parts.items if parts is not None else ():
        write(one)


@target("requests.gzip", mutated(BODIES.map(gzip.compress)))
def read_gzip(body: bytes) -> None:
    plain = result_of(lambda: decompressed(body, "gzip", MOST), Refused)
    assert plain is None or len(plain) <= MOST


@target("requests.headers", st.text(max_size=30) | st.from_regex(r"application/json; *charset=\S{0,9}"))
def read_headers(text: str) -> None:
    result_of(lambda: kind_of(text), Refused)
    result_of(lambda: request_key("", text, "", "", b""), Refused)


@target("requests.claims", st.dictionaries(st.sampled_from(["ingest", "ingest_rate"]), JSON))
def read_claims(claims: dict[str, Any]) -> None:
    rights = result_of(lambda: rights_of(claims), BadToken)
    if rights is not None:
        assert rights.topics is not None
        assert rights.rate is None or rights.rate > 0


@target("requests.frame", mutated(st.just(json.dumps({"id": 5, "record": PAYMENT}).encode())))
def read_frame(content: bytes) -> None:
    frame = result_of(lambda: frame_of(content), Refused)
    if frame is not None:
        json.loads(frame[0])
        write(frame[1])


@target("requests.key", mutated(st.just(KEY_RECORD)))
def read_key(value: bytes) -> None:
    result_of(lambda: decode("keys", value, 0), JobError)
