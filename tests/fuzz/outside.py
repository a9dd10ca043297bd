"""What users and other systems give: configuration, HTTP replies of the session service, records of any topic."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import tempfile
import threading
from dataclasses import replace
from functools import cache, partial
from io import StringIO
from typing import Any, Final, get_args

import typer.main
from hypothesis import strategies as st
from typer.exceptions import TyperException

import moneystate as ms
from moneystate import log
from moneystate.api.message import Message
from moneystate.api.rules import file_name, plain, read
from moneystate.cli import ask, main, schemas
from moneystate.cli.durations import parse_ms
from moneystate.cli.known_services import KNOWN
from moneystate.cli.rule_flags import flags, rules_by_service
from moneystate.cli.settings_file import options_of
from moneystate.engine.avro import Malformed
from moneystate.errors import ConfigError
from moneystate.kafka.sizes import producer_bytes
from moneystate.lookup.http_service import MAX_BYTES, CallResult, Found, HttpService, ServiceConfig
from moneystate.lookup.wire import Answer, Outcome, Request, Wire
from moneystate.runtime.folders import avro_root
from moneystate.runtime.job import service_spec
from moneystate.runtime.lookup_plan import quoted
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import made_at, with_rules
from moneystate.schemas.tree import Tree, read_folder, tree_of
from moneystate.serving import addresses
from services.enrichment.records import SessionLookupRequested
from services.reconciliation.config import Fields, InputConfig
from services.reconciliation.decode import decoder_of
from tests.fuzz.mutation import JSON, mutated
from tests.fuzz.target import result_of, target

LONG: Final = 1 << 63
DIGITS: Final = "9" * 5_000  # more than Python makes a number of
TEXTS = st.sampled_from([
    "", " ", DIGITS, f"{DIGITS}s", "9" * 30 + "d", "20s", "1d", "²", "٣", "٣s", "nan", "-1", "true",
])  # fmt: skip
TEXT = TEXTS | st.text(max_size=12)
HUGE: Final = "a huge number"  # stands for 16 ** 5_000 in inputs: Python does not print it
NUMBERS = st.integers() | st.sampled_from([0, 1, -1, LONG - 1, LONG, 10**400])
VALUES = st.recursive(
    TEXT | NUMBERS | st.just(HUGE) | st.floats() | st.booleans() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


# Flags and configuration files


@target("outside.durations", TEXT | st.from_regex(r"\d+(ms|s|m|h|d)"), f"{DIGITS}s", "9" * 300 + "d")
def read_duration(text: str) -> None:
    value = result_of(lambda: parse_ms(text, "--x"), ConfigError)
    assert value is None or 0 <= value < LONG // 4


@target("outside.flags", TEXT | st.from_regex(r"\w+:\d+"), "h:" + DIGITS, "²", DIGITS)
def read_flags(text: str) -> None:
    port = result_of(lambda: addresses.split(text, "--x")[1], ConfigError)
    assert port is None or 0 <= port < 1 << 16
    result_of(lambda: producer_bytes({"message.max.bytes": text}, 1), ConfigError)
    result_of(lambda: schemas._current(schemas_tree(), [f"SessionLookupCompleted.avsc={text}"]), ConfigError)
    parts = result_of(lambda: ask._value([text]), ConfigError)
    assert parts is None or len(parts.parts) == 1


@cache
def schemas_tree() -> Tree:
    return tree_of(read_folder(avro_root()))


SERVICES: Final = [path for paths in KNOWN.values() for path in paths]


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A service, and its table in a configuration file."""
    path = draw(st.sampled_from(SERVICES))
    rules = made_at(path).rules
    names = sorted(file_name(field) for field in plain(rules))
    values = VALUES | st.sampled_from([plain(rules)[name] for name in plain(rules)])
    return path, draw(st.dictionaries(st.sampled_from(names) | TEXT, values, max_size=3))


def grown(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: grown(content) for name, content in value.items()}
    if isinstance(value, list):
        return [grown(content) for content in value]
    return 16**5_000 if value == HUGE else value


@target("outside.rules", tables(), ("services.sequencing.service:sequencing", {"k": HUGE}))
def read_rules(given: tuple[str, dict[str, Any]]) -> None:
    path, table = given[0], grown(given[1])
    own = made_at(path).rules
    rules = result_of(lambda: plain(read(type(own), table, "[x]", parse_ms, own)), ConfigError)
    if rules is not None:
        json.loads(json.dumps(rules, allow_nan=False))  # as a plan does
        result_of(lambda: service_spec(with_rules(path, rules)), ConfigError)


@st.composite
def rule_flags(draw: st.DrawFn) -> tuple[str, str, str]:
    path = draw(st.sampled_from(SERVICES))
    return path, draw(st.sampled_from([*flags(made_at(path).rules), "--x"])), draw(TEXT | NUMBERS.map(hex))


@target("outside.rule_flags", rule_flags(), ("services.sequencing.service:sequencing", "--k", "9" * 4_000))
def read_rule_flag(given: tuple[str, str, str]) -> None:
    path, flag, text = given
    rules = result_of(lambda: rules_by_service([path], [(flag, text)])[0], ConfigError)
    if rules is not None:
        json.loads(json.dumps(rules, allow_nan=False))
        result_of(lambda: service_spec(with_rules(path, rules)), ConfigError)


@cache
def root() -> Any:
    return typer.main.get_command(main.app)


# A value that the command refuses once it has read all others
REFUSED: Final[dict[str, dict[str, Any]]] = {
    "serve": {"listen": "nowhere"},
    "lookup-worker": {"url": "nowhere"},
    "heartbeat": {"topics": ","},
}
NEEDED: Final = {"bootstrap-servers": "127.0.0.1:1", "data": "/nowhere", "topic-prefix": ""}


@st.composite
def files(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A command, and its table in a configuration file."""
    command = draw(st.sampled_from(sorted(REFUSED)))
    options = sorted(options_of(root().commands[command]))
    given = draw(st.dictionaries(st.sampled_from(options) | TEXT, VALUES, max_size=3))
    needed = {name: value for name, value in NEEDED.items() if name in options}
    return command, needed | given | REFUSED[command]


@target(
    "outside.config",
    files(),
    ("heartbeat", {"bootstrap-servers": "h:1", "topics": ",", "kafka-config": {"": HUGE}}),
    share=0.5,
)
def read_config(given: tuple[str, dict[str, Any]]) -> None:
    command, table = given
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8", errors="replace") as file:
            file.write(f"[{command}]\n" + "".join(f"{toml(name)} = {toml(value)}\n" for name, value in table.items()))
            file.flush()
            with contextlib.redirect_stderr(StringIO()):
                ended = result_of(
                    lambda: root().main([command, "--config", file.name], standalone_mode=False),
                    ConfigError,
                    TyperException,
                )
        assert ended is None
    finally:
        log.end()


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return hex(value) if value >= 0 else str(value)
    if value == HUGE:
        return "0x1" + 5_000 * "0"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml(str(name))} = {toml(content)}' for name, content in value.items())}}}"
    return str(value)


# Replies of the session service

EVE: Final = "user-eve"  # stands for what a service may say about a user
COUNTRY = b'{"clientCountryCode": "ES"}'


def response(head: str, body: bytes = b"") -> bytes:
    return f"HTTP/1.1 {head}\r\n\r\n".encode() + body


REPLIES: Final = [
    response(f"200 OK\r\nContent-Length: {len(COUNTRY)}", COUNTRY),
    response("200 OK\r\nContent-Length: 9999", COUNTRY),
    response("200 OK\r\nContent-Length: 5\r\nContent-Length: 7", COUNTRY),
    response("200 OK\r\nTransfer-Encoding: chunked", b"1b\r\n" + COUNTRY + b"\r\n0\r\n\r\n"),
    response("200 OK\r\nTransfer-Encoding: chunked", b"ffffffffffffffff\r\n" + COUNTRY),
    response("200 OK\r\nTransfer-Encoding: chunked", b"-1\r\n" + COUNTRY),
    response("200 OK\r\nContent-Encoding: gzip\r\nConnection: close", gzip.compress(b"0" * 4_000_000)),
    response("200 OK\r\nContent-Encoding: br, gzip, deflate\r\nConnection: close", COUNTRY),
    response("200 OK\r\nContent-Type: text/html; charset=nowhere\r\nConnection: close", b"<html>" * 20_000),
    response("200 OK\r\n" + "X: " + "y" * 200_000, COUNTRY),
    response("200 OK" + "\r\nX: y" * 5_000, COUNTRY),
    response("302 Found\r\nLocation: http://[::bad/\r\nContent-Length: 0"),
    response(f"404 {EVE}\r\nContent-Length: 0"),
    response(f"429 Too Many\r\nRetry-After: {DIGITS}\r\nContent-Length: 0"),
    response("503 Down\r\nRetry-After: Mon, 99 Jan 99999 00:00:00 GMT\r\nContent-Length: 0"),
    response("100 Continue") * 3 + response("204 No Content"),
    response("101 Switching Protocols\r\nUpgrade: websocket"),
    response(f"999 {EVE}\r\n{EVE}: {EVE}\r\nContent-Length: {EVE}"),
]
NAMES = st.sampled_from(["clientCountryCode", "x"])
BODIES = st.dictionaries(NAMES, JSON | st.just("ES")).map(json.dumps).map(str.encode)


@cache
def service() -> Replies:
    return Replies()


class Replies:
    """A real socket that gives the same bytes to every caller, then hangs up."""

    def __init__(self) -> None:
        self.reply = b""
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self.socket.accept()[0] as caller, contextlib.suppress(OSError):
                caller.recv(4096)
                caller.sendall(self.reply)


def any_request() -> Request:
    return wire().request(wire().plan.request.encode(SessionLookupRequested("m", "u", "s", 0, "LATE")))


@cache
def wire() -> Wire:
    return Wire(next(iter(plan_of("services.enrichment.service:service").lookups.values())))


async def asked(path: str) -> CallResult:
    client = HttpService(ServiceConfig(service().url), 1)
    try:
        return await client.ask(path, 10.0, partial(wire().problem, any_request()))
    finally:
        await client.close()


@target(
    "outside.http",
    st.tuples(st.binary(max_size=8) | st.just(b".."), mutated(st.sampled_from(REPLIES)) | BODIES.map(
        lambda body: response(f"200 OK\r\nContent-Length: {len(body)}", body))),
    (b"s", response("200 OK\r\nConnection: close", b"[" * MAX_BYTES)),
    share=0.5,
)  # fmt: skip
def read_reply(given: tuple[bytes, bytes]) -> None:
    session, service().reply = given
    result = asyncio.run(asked("/" + quoted(session.decode("latin-1"))))
    if isinstance(result, Found):
        assert wire().reply(any_request(), Answer(Outcome.FOUND, result.body, 1), 0)
    else:
        assert isinstance(result, get_args(CallResult))
        assert EVE not in getattr(result, "reason", "")


# Records of any topic, as the inputs of reconciliation

CLOUD = st.dictionaries(
    st.sampled_from(["ce_id", "ce_source", "ce_time", "ce_specversion"]),
    st.none() | st.binary(max_size=12) | TEXT.map(str.encode) | st.just(b"2020-01-01T00:00:00Z"),
)
SCHEMA: Final = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "i", "type": {"type": "string", "logicalType": "uuid"}}, {"name": "s", "type": ["null", "long"]},
    {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
]})  # fmt: skip
FIELDS: Final = Fields(id="i", source="s", time="t", parts="p.n", derived_from="d", filtered="f")


@cache
def decoders() -> list[Any]:
    items = InputConfig(store="a", role="ACTUAL")
    fields = replace(items, fields=FIELDS)
    ways = [items, replace(items, format="avro"), fields, replace(fields, format="avro", schema=SCHEMA)]
    return [decoder_of(way) for way in ways]


RECORDS = mutated(st.sampled_from([
    b'{"store":"a","source":"s","eventId":"e","role":"ACTUAL","eventTime":5,"parts":2}',
    b'{"type":"InventoryItem","source":"s","eventId":"e","eventTime":"2020-01-01T00:00:00Z"}',
    b'{"i":"5","s":7,"t":"2020-01-01T00:00:00Z","p":{"n":3},"d":"x","f":true}',
    b'{"i":1e400,"s":9e999999999,"t":1e19,"p":{"n":' + DIGITS.encode() + b"}}",
]))  # fmt: skip


@target("outside.inventory", st.tuples(st.integers(0, 3), CLOUD, st.none() | RECORDS))
def read_inventory(given: tuple[int, dict[str, bytes | None], bytes | None]) -> None:
    number, headers, value = given
    result_of(lambda: decoders()[number](Message("t", value=value, headers=headers)), Malformed, ms.Reject)
