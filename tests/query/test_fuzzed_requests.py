"""Whatever bytes or values a request has, its call ends with a proper status, and the server logs nothing unforeseen.

`FUZZ_EXAMPLES=20000` tries more than a run of all tests does."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Final

import grpc
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.serving.client import Client
from moneystate.serving.state.served import ServedService
from moneystate.state.v1 import status_pb2
from tests.fuzz.mutation import mutated
from tests.query import market_story, story
from tests.query.serving import Server

EXAMPLES: Final = int(os.environ.get("FUZZ_EXAMPLES", "150"))
DEADLINE_S: Final = 60.0
QUIET_S: Final = 0.2  # a watch of which nothing is to be told
PROPER: Final = {
    *("OK", "INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED"),
    *("UNIMPLEMENTED", "CANCELLED"),
}
UNREADABLE: Final = "found bytes that are none"  # INTERNAL, as gRPC has it
DEPTH: Final = 3

KNOWN = st.sampled_from(["ann", "bob", "seller", "offers", "cheapest", "sellers", story.EPOCH, market_story.EPOCH])
TEXTS = KNOWN | st.sampled_from([
    *("", "ann", "bob", "eve", "seller", "offers", "country", "user_id", story.EPOCH, market_story.EPOCH, "\0", "a\0b"),
    *("\N{GREEK SMALL LETTER ALPHA}" * 300, "x" * 4_000, "9" * 5_000, "[" * 5_000, "null", "-1", "1e999", "NaN", "/"),
    *("\U0010ffff", "\x1f", "%s", "*"),
]) | st.text(max_size=12)  # fmt: skip


def numbers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    ends = st.sampled_from([least, most])
    return (
        ends | st.sampled_from([n for n in (0, 1, 2, 3, -1, -2, 100, 1_001) if n >= least]) | st.integers(least, most)
    )


def scalars(field: Any) -> st.SearchStrategy[Any]:
    kinds = {
        field.TYPE_STRING: TEXTS,
        field.TYPE_BYTES: st.binary(max_size=12) | TEXTS.map(str.encode),
        field.TYPE_BOOL: st.booleans(),
        field.TYPE_DOUBLE: st.floats(),
        field.TYPE_FLOAT: st.floats(width=32),
        field.TYPE_INT32: numbers(32, signed=True),
        field.TYPE_INT64: numbers(64, signed=True),
        field.TYPE_SINT64: numbers(64, signed=True),
        field.TYPE_UINT32: numbers(32, signed=False),
        field.TYPE_UINT64: numbers(64, signed=False),
        field.TYPE_ENUM: numbers(32, signed=True),
    }
    return kinds[field.type]


@cache
def messages(kind: Any, depth: int = DEPTH) -> st.SearchStrategy[Any]:
    """Messages of this type, with any of its fields."""
    fields = {}
    for field in kind.fields:
        if field.message_type is None:
            fields[field.name] = scalars(field) if field.name != "page_token" else st.just("") | TEXTS
        elif depth > 0:
            fields[field.name] = messages(field.message_type, depth - 1)
        if field.name in fields and field.is_repeated:
            fields[field.name] = st.lists(fields[field.name], max_size=3)

    def made(values: dict[str, Any]) -> Any:
        return GetMessageClass(kind)(**values)

    return (st.fixed_dictionaries(fields) | st.fixed_dictionaries({}, optional=fields)).map(made)


def encoded(kind: Any) -> st.SearchStrategy[bytes]:
    whole = messages(kind).map(lambda message: bytes(message.SerializeToString()))
    return whole | mutated(whole)


def calls(services: Any) -> st.SearchStrategy[tuple[Any, bytes]]:
    methods = [method for service in services for method in service.methods]
    return st.sampled_from(methods).flatmap(lambda method: st.tuples(st.just(method), encoded(method.input_type)))


def status_of(channel: grpc.Channel, method: Any, request: bytes) -> tuple[str, str]:
    """How the call ends. Of a stream, the first answer is enough."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    unary: Any = channel.unary_unary(path)
    streamed: Any = channel.unary_stream(path)
    try:
        if not method.server_streaming:
            unary(request, timeout=DEADLINE_S)
        else:
            stream = streamed(request, timeout=QUIET_S)
            next(stream, None)
            stream.cancel()
    except grpc.RpcError as e:
        error: Any = e
        return error.code().name, error.details()
    return "OK", ""


def test_any_request_ends_with_a_proper_status(market_server: Server, asking: Client) -> None:
    face = ServedService(market_story.SERVICE)
    before = len(market_server.output())

    @given(call=calls(face.services))
    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    def check(call: tuple[Any, bytes]) -> None:
        code, details = status_of(channel, *call)
        quiet = call[0].server_streaming and code == "DEADLINE_EXCEEDED"
        assert code in PROPER or quiet or (code == "INTERNAL" and UNREADABLE in details), (call[0].name, code, details)

    with grpc.insecure_channel(market_server.address) as channel:
        check()
    assert asking.call("Status.GetStatus", status_pb2.GetStatusRequest()).caught_up
    logged = market_server.output()[before:]
    assert "unforeseen" not in logged, logged
    assert "Traceback" not in logged, logged
