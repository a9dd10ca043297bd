"""`moneystate.state.v1` of a service by the real server: reads, versions, pages, queries, masks, watches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import grpc
import pytest

from moneystate.devbroker import DevBroker
from moneystate.serving.callers import READ
from moneystate.serving.client import Client
from moneystate.state.v1 import header_pb2
from moneystate.state.v1 import state_pb2 as s
from tests.query.certificates import Pki
from tests.query.conftest import Moneystate
from tests.query.market_story import EPOCH, LAST, OTHERS, SERVICE, MarketJob
from tests.query.market_story import S as SECOND
from tests.query.serving import Server, failure, new_cluster, reason_of, wait_for

ROOT = Path(__file__).resolve().parents[2]
PERSONAL = f"{READ} state.read.personal"
STREAMS = 10


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def market(broker: DevBroker, pki: Pki, audit: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """TLS and tokens."""
    cluster = new_cluster(broker)
    flags = [*pki.tls(), "--token-key", pki.token_key, "--audit-log", str(audit), "--service", SERVICE]
    flags += ["--max-streams-per-caller", str(STREAMS)]
    with Server(cluster, tmp_path_factory.mktemp("market"), *flags, job=MarketJob(cluster)) as running:
        yield running.told(**files(pki, PERSONAL))


def files(pki: Pki, scope: str) -> dict[str, str]:
    return {"ca": pki.ca, "token_file": pki.token_file(scope)}


@pytest.fixture
def client(market: Server, pki: Pki) -> Iterator[Client]:
    with market.client(**files(pki, PERSONAL)) as connected:
        yield connected


@pytest.fixture
def stranger(market: Server, pki: Pki) -> Iterator[Client]:
    """May not read personal fields."""
    with market.client(**files(pki, READ)) as connected:
        yield connected


def at(batch: int) -> header_pb2.At:
    return header_pb2.At(version=header_pb2.Version(epoch=EPOCH, batch=batch))


def named(state: str, key: str, id: str = "") -> s.RecordName:
    return s.RecordName(state=state, key=key, id=id)


def seller(client: Client, key: str, batch: int | None = None) -> dict[str, Any]:
    read_at = None if batch is None else at(batch)
    answer = client.call("State.Get", s.GetRequest(name=named("seller", key), at=read_at))
    return dict(json.loads(answer.records[0].json))


def shown(records: Any) -> list[tuple[str, str, Any]]:
    return [(r.name.key, r.name.id, json.loads(r.json)) for r in records]


def pages(client: Client, call: str, request: Any, field: str = "records") -> list[Any]:
    """All of them; each page has a token that leads on."""
    items: list[Any] = []
    while True:
        answer = client.call(call, request)
        items += getattr(answer, field)
        if not answer.next_page_token:
            return items
        request.page_token = answer.next_page_token
        request.ClearField("at" if "at" in request.DESCRIPTOR.fields_by_name else "to")


def test_only_an_administrator_may_ask_to_forget(client: Client) -> None:
    request = s.ForgetRequest(key="ann")
    assert failure(lambda: client.call("State.Forget", request)) == ("PERMISSION_DENIED", "SCOPE_MISSING")


def test_a_record_at_any_version(client: Client) -> None:
    assert seller(client, "ann") == {"type": "Seller", "country": "PT", "score": 9}
    assert seller(client, "ann", 0) == {"type": "Seller", "country": "ES", "score": 3}
    at_time = header_pb2.At(event_time_ms=3 * SECOND)
    answer = client.call("State.Get", s.GetRequest(name=named("seller", "ann"), at=at_time))
    assert answer.header.version.batch == 0
    entry = client.call("State.Get", s.GetRequest(name=named("offers", "ann", "x1")))
    assert shown(entry.records) == [("ann", "x1", {"type": "Offer", "item": "x", "cents": 700, "tags": ["new"]})]


def test_all_of_a_key(client: Client) -> None:
    answer = client.call("State.Get", s.GetRequest(name=s.RecordName(key="ann"), at=at(0)))
    assert [record.name.state for record in answer.records] == ["seller", "last"]
    assert list(answer.maps) == ["offers", "looks"]


def test_what_has_expired_is_not_there(client: Client) -> None:
    assert failure(lambda: client.call("State.Get", s.GetRequest(name=named("looks", "ann", "x1"))))[0] == "NOT_FOUND"
    assert client.call("State.Get", s.GetRequest(name=named("looks", "ann", "x1"), at=at(1))).records
    request = s.ListRequest(index="by_look", equals=s.IndexValue(parts=[s.Part(number=0)]))
    assert [r.name.id for r in client.call("State.List", request).records] == ["x9"]


def test_avro_is_read_with_the_schema_that_is_told(client: Client) -> None:
    schema = client.call("State.GetSchema", s.GetSchemaRequest())
    (offer,) = [state.record for state in schema.states if state.name == "offers"]
    request = s.GetRequest(name=named("offers", "ann", "x2"), encoding=s.ENCODING_AVRO)
    value = client.call("State.Get", request).records[0].avro
    assert value[2:10][::-1].hex() == offer.fingerprint
    read = fastavro.schemaless_reader(BytesIO(value[10:]), json.loads(offer.avro), None)
    assert read == {"item": "x", "cents": 500, "tags": []}
    assert [(x.name, x.is_map, x.ttl_ms) for x in schema.states if x.name in ("seller", "looks")] == [
        ("seller", False, 0), ("looks", True, 10 * SECOND),
    ]  # fmt: skip
    assert {x.name: x.personal for x in schema.indices}["by_country"]


def test_many_places_of_one_version(client: Client) -> None:
    places = [named("seller", "ann"), named("offers", "bob", "y"), named("seller", "nobody")]
    answer = client.call("State.BatchGet", s.BatchGetRequest(names=places, at=at(0)))
    assert [record.HasField("json") for record in answer.records] == [True, True, False]


def test_listings_by_key_page_through_one_version(client: Client) -> None:
    listed = pages(client, "State.List", s.ListRequest(state="seller", keys=s.KeyRange(prefix="s"), page_size=7))
    assert [record.name.key for record in listed] == OTHERS
    between = s.KeyRange(start="ann", end="s002")
    listed = pages(client, "State.List", s.ListRequest(state="seller", keys=between, page_size=1))
    assert [record.name.key for record in listed] == ["ann", "s000", "s001"]
    listed = pages(client, "State.List", s.ListRequest(state="offers", page_size=1, at=at(0)))
    assert [(r.name.key, r.name.id) for r in listed] == [("ann", "x1"), ("ann", "x2"), ("bob", "y")]
    entries = s.ListEntriesRequest(map="offers", key="ann", prefix="x", page_size=1)
    assert [r.name.id for r in pages(client, "State.ListEntries", entries)] == ["x1", "x2"]


def test_listings_by_index_are_in_its_order(client: Client) -> None:
    def value(*parts: str | int) -> s.IndexValue:
        return s.IndexValue(parts=[s.Part(text=p) if isinstance(p, str) else s.Part(number=p) for p in parts])

    cheap = pages(client, "State.List", s.ListRequest(index="by_price", equals=value("x"), page_size=1))
    assert [(r.name.key, json.loads(r.json)["cents"]) for r in cheap] == [("bob", 300), ("ann", 500), ("ann", 700)]
    between = s.IndexRange(low=value("x", 400), high=value("x", 700))
    assert [r.name.id for r in pages(client, "State.List", s.ListRequest(index="by_price", range=between))] == ["x2"]
    then = pages(client, "State.List", s.ListRequest(index="by_tag", at=at(0)))
    assert [(r.name.key, r.name.id) for r in then] == [("ann", "x1"), ("bob", "y"), ("bob", "y")]
    best = pages(client, "State.List", s.ListRequest(index="by_score", range=s.IndexRange(low=value(148))))
    assert [r.name.key for r in best] == ["s148", "s149"]


def test_a_declared_query(client: Client, stranger: Client) -> None:
    request = s.CallRequest(query="cheapest", arguments='{"item": "x", "most": 2}')
    result = client.call("State.Call", request).result
    assert json.loads(result.json) == [
        {"seller": "bob", "item": "x9", "cents": 300}, {"seller": "ann", "item": "x2", "cents": 500},
    ]  # fmt: skip
    then = s.CallRequest(query="cheapest", arguments='{"item": "y"}', at=at(0))
    assert json.loads(client.call("State.Call", then).result.json)[0]["seller"] == "bob"
    of_country = s.CallRequest(query="sellers", arguments='{"country": "PT"}')
    assert json.loads(client.call("State.Call", of_country).result.json) == [{"country": "PT", "score": 9}]
    of_score = s.CallRequest(query="scored", arguments='{"score": 9}')
    masked = stranger.call("State.Call", of_score).result
    assert {seller["country"] for seller in json.loads(masked.json)} == {""}
    assert list(masked.masked) == ["value[].country"]


@pytest.mark.parametrize(
    ("call", "request_", "reason"),
    [
        ("State.Get", s.GetRequest(name=named("sellers", "ann")), "MALFORMED"),
        ("State.Get", s.GetRequest(name=named("seller", "")), "NOT_FOUND"),
        ("State.Get", s.GetRequest(name=named("seller", "ann", "x")), "MALFORMED"),
        ("State.Get", s.GetRequest(name=named("offers", "ann")), "NOT_FOUND"),
        ("State.Get", s.GetRequest(name=named("seller", "nobody")), "NOT_FOUND"),
        ("State.Get", s.GetRequest(name=named("seller", "ann"), encoding=7), "MALFORMED"),  # type: ignore[arg-type]
        ("State.Get", s.GetRequest(name=named("seller", "ann"), at=at(99)), "FUTURE"),
        ("State.Get", s.GetRequest(name=named("seller", "x" * 65_536)), "MALFORMED"),
        ("State.BatchGet", s.BatchGetRequest(), "MALFORMED"),
        ("State.BatchGet", s.BatchGetRequest(names=[named("seller", "ann")] * 1_001), "MALFORMED"),
        ("State.BatchGet", s.BatchGetRequest(names=[named("", "ann")]), "MALFORMED"),
        ("State.List", s.ListRequest(state="seller", page_size=-1), "MALFORMED"),
        ("State.List", s.ListRequest(), "MALFORMED"),
        ("State.List", s.ListRequest(index="nothing"), "MALFORMED"),
        ("State.List", s.ListRequest(index="by_score", equals=s.IndexValue()), "MALFORMED"),
        ("State.List", s.ListRequest(state="seller", equals=s.IndexValue()), "MALFORMED"),
        ("State.List", s.ListRequest(state="seller", page_size=1_001), "MALFORMED"),
        ("State.List", s.ListRequest(state="seller", page_token="nonsense"), "BAD_PAGE_TOKEN"),
        ("State.ListEntries", s.ListEntriesRequest(map="seller", key="ann"), "MALFORMED"),
        ("State.Call", s.CallRequest(query="nothing"), "MALFORMED"),
        ("State.Call", s.CallRequest(query="cheapest"), "MALFORMED"),
        ("State.Call", s.CallRequest(query="cheapest", arguments='{"item": 5}'), "MALFORMED"),
        ("State.Call", s.CallRequest(query="cheapest", arguments='{"item": "x", "least": 5}'), "MALFORMED"),
        ("State.Call", s.CallRequest(query="cheapest", arguments="{"), "MALFORMED"),
        ("State.Call", s.CallRequest(query="cheapest", arguments='{"item": "x", "most": -1}'), "MALFORMED"),
        ("State.Diff", s.DiffRequest(), "MALFORMED"),
        ("State.Explain", s.ExplainRequest(name=named("seller", "nobody")), "NOT_FOUND"),
    ],
    ids=lambda value: str(value).replace("\n", " ")[:60],
)  # fmt: skip
def test_wrong_requests_say_why(client: Client, call: str, request_: Any, reason: str) -> None:
    assert failure(lambda: client.call(call, request_))[1] == reason


def since(batch: int) -> s.DiffRequest:
    request = s.DiffRequest(page_size=40)
    getattr(request, "from").CopyFrom(at(batch))
    return request


def test_differences_and_changes(client: Client) -> None:
    differences = pages(client, "State.Diff", since(0), "changes")
    places = {(c.after.name.state, c.after.name.key, c.after.name.id): c for c in differences}
    assert set(places) == {
        ("seller", "ann", ""), ("last", "ann", ""), ("offers", "bob", "y"), ("offers", "bob", "x9"),
        ("looks", "bob", "x9"), *(("seller", other, "") for other in OTHERS), *(("last", o, "") for o in OTHERS),
    } - {("last", "s000", "")}  # fmt: skip
    gone = places["offers", "bob", "y"]
    assert gone.before.HasField("json")
    assert not gone.after.HasField("json")
    first = next(iter(client.stream("State.Watch", s.WatchRequest(key="bob", after=at(1).version))))
    told = {(r.name.state, r.name.id): r.HasField("json") for r in first.changes}
    assert told["offers", "y"] is False
    assert told["offers", "x9"] is True


def test_a_watch_of_all_has_each_change_once(client: Client) -> None:
    seen: list[tuple[str, str]] = []
    answers = client.stream("State.Watch", s.WatchRequest(after=at(0).version))
    for answer in answers:
        seen += [(r.name.state, r.name.key) for r in answer.changes if answer.header.version.batch == 1]
        if answer.header.version.batch == LAST and not answer.more:
            answers.cancel()
            break
    assert sorted(seen) == sorted(
        [(state, key) for state in ("seller", "last") for key in ["ann", *OTHERS] if (state, key) != ("last", "s000")]
    )  # of s000 it has no score, so it is no entry


def test_explain_shows_what_a_record_was_and_when(client: Client) -> None:
    answer = client.call("State.Explain", s.ExplainRequest(name=named("seller", "ann")))
    steps = [(step.header.version.batch, step.from_watermark_ms, json.loads(step.record.json)["country"])
             for step in answer.steps]  # fmt: skip
    assert steps[0] == (1, 2 * SECOND, "PT")
    assert steps[-1][2] == "ES"
    gone = client.call("State.Explain", s.ExplainRequest(name=named("offers", "bob", "y")))
    assert [step.record.HasField("json") for step in gone.steps][:2] == [False, True]


PERSONAL_CALLS: list[tuple[str, Any]] = [
    ("State.Get", s.GetRequest(name=named("seller", "ann"))),
    ("State.Get", s.GetRequest(name=s.RecordName(key="ann"))),
    ("State.Get", s.GetRequest(name=named("seller", "ann"), encoding=s.ENCODING_AVRO)),
    ("State.BatchGet", s.BatchGetRequest(names=[named("seller", "ann")])),
    ("State.List", s.ListRequest(state="seller", keys=s.KeyRange(prefix="ann"))),
    ("State.List", s.ListRequest(index="by_score", equals=s.IndexValue(parts=[s.Part(number=9)]))),
    ("State.Explain", s.ExplainRequest(name=named("seller", "ann"))),
    ("State.Diff", since(0)),
    ("State.Call", s.CallRequest(query="scored", arguments='{"score": 9}')),
]


@pytest.mark.parametrize(("call", "request_"), PERSONAL_CALLS, ids=lambda value: str(value).replace("\n", " ")[:40])
def test_personal_fields_are_masked_everywhere(client: Client, stranger: Client, call: str, request_: Any) -> None:
    def told(caller: Client) -> bytes:
        answer = caller.call(call, request_)
        if "next_page_token" in answer.DESCRIPTOR.fields_by_name:
            answer.ClearField("next_page_token")  # base64, which may spell anything
        return bytes(answer.SerializeToString())

    assert b"PT" in told(client)
    assert b"PT" not in told(stranger).replace(b"PTS", b"")
    assert b"country" in told(stranger)  # among the masked


def test_a_watch_masks_too_and_an_index_or_query_of_a_personal_field_needs_the_scope(stranger: Client) -> None:
    first = next(iter(stranger.stream("State.Watch", s.WatchRequest(key="ann", after=at(0).version))))
    (record,) = [r for r in first.changes if r.name.state == "seller"]
    assert json.loads(record.json)["country"] == ""
    assert list(record.masked) == ["country"]
    (other,) = [r for r in first.changes if r.name.state == "last"]
    assert not other.masked
    request = s.ListRequest(index="by_country", equals=s.IndexValue(parts=[s.Part(text="PT")]))
    assert failure(lambda: stranger.call("State.List", request)) == ("PERMISSION_DENIED", "SCOPE_MISSING")
    asked = s.CallRequest(query="sellers", arguments='{"country": "PT"}')
    assert failure(lambda: stranger.call("State.Call", asked)) == ("PERMISSION_DENIED", "SCOPE_MISSING")


def test_the_audit_names_the_keys_whose_personal_fields_were_read(client: Client, audit: Path) -> None:
    client.call("State.Get", s.GetRequest(name=named("seller", "s007")))

    def line() -> Any:
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        return next((one for one in lines if one["call"] == "State.Get" and one["keys"] == ["s007"]), None)

    assert wait_for(line)["version"] == f"{EPOCH}/{LAST}"


def test_streams_are_limited_by_caller(client: Client, market: Server) -> None:
    with ExitStack() as ended:

        def watch() -> Any:
            answers = client.stream("State.Watch", s.WatchRequest(after=at(0).version))
            ended.callback(answers.cancel)
            return next(answers)

        def refused() -> tuple[str, str] | None:
            """Until as many are open as may be: those of other tests may still be ending."""
            try:
                watch()
            except grpc.RpcError as e:
                return reason_of(e)
            return None

        assert wait_for(refused, market.output) == ("RESOURCE_EXHAUSTED", "TOO_MANY_STREAMS")


def test_without_a_valid_token_and_its_scope_there_is_no_answer(market: Server, pki: Pki) -> None:
    def refused(**given: str) -> tuple[str, str]:
        with market.client(ca=pki.ca, **given) as nobody:
            return failure(lambda: nobody.call("State.GetSchema", s.GetSchemaRequest()))

    assert refused() == ("UNAUTHENTICATED", "NO_TOKEN")
    assert refused(token_file=pki.token_file(READ, expires_in_s=-1)) == ("UNAUTHENTICATED", "BAD_TOKEN")
    assert refused(token_file=pki.token_file("")) == ("PERMISSION_DENIED", "SCOPE_MISSING")


def test_a_stream_ends_with_its_token(market: Server, pki: Pki) -> None:
    with market.client(ca=pki.ca, token_file=pki.token_file(READ, expires_in_s=3)) as client:
        stream = client.stream("State.Watch", s.WatchRequest())
        assert failure(lambda: list(stream)) == ("UNAUTHENTICATED", "BAD_TOKEN")


def test_without_tls_there_is_no_connection(market: Server) -> None:
    with market.client() as client:
        assert failure(lambda: client.call("State.GetSchema", s.GetSchemaRequest()))[0] == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["cheapest", "x"], ["bob", "x9", "300"]),
        (["cheapest", "x", "most=1"], ["bob", "x9", "300"]),
        (["call", "sellers", "PT", "true"], ["PT", "9"]),
        (["get", "ann"], ["ann", "PT", "9"]),
        (["get", "ann", "offers", "x1"], ["ann", "x1", "x", "700"]),
        (["list", "seller", "s00", "--limit", "3"], ["s002", "FR", "2"]),
        (["list", "by_price", "x", "500"], ["ann", "x2", "x", "500"]),
        (["list", "by_score", "--low", "149"], ["s149", "FR", "149"]),
        (["entries", "offers", "ann", "x2"], ["ann", "x2", "x", "500"]),
        (["explain", "seller", "ann"], ["country", "PT,", "score", "9"]),
        (["diff", "--since", f"{EPOCH}/1"], ["offers", "bob", "y", "cents", "100"]),
        (["diff", "--since-time", "1970-01-01T00:00:03Z"], ["offers", "bob", "y", "cents", "100"]),
        (["status"], ["oldest", "version"]),
        (["watch", "bob", "--since", f"{EPOCH}/1", "--count", "1"], ["offers", "bob"]),
        (["schema"], ["by_price", "offers"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_the_command_line_asks(
    moneystate: Moneystate, market: Server, pki: Pki, words: list[str], wanted: list[str]
) -> None:
    given = files(pki, PERSONAL)
    flags = ["--address", market.address, "--tls-ca", given["ca"], "--token-file", given["token_file"]]
    done = moneystate("ask", "market", *words, *flags)
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    assert any(all(word in line for word in wanted) for line in lines), done.out
    for line in moneystate("ask", SERVICE, *words, *flags, "--json").out.splitlines():
        if words[0] not in ("explain", "schema", "status"):
            assert json.loads(line)


def test_the_status_that_advice_names_is_there_for_a_plain_service(
    moneystate: Moneystate, market: Server, pki: Pki
) -> None:
    given = files(pki, PERSONAL)
    flags = ["--address", market.address, "--tls-ca", given["ca"], "--token-file", given["token_file"]]
    done = moneystate("ask", "market", "status", *flags)
    assert done.code == 0, done.err
    assert "oldest version" in done.out


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (
            ["market", "cheap", "x"],
            2,
            "expected a query of market, found cheap. Do: use one of cheapest, scored, sellers",
        ),
        (["market", "cheapest"], 2, "ask cheapest: expected item, found none. Do: give item, most."),
        (["market", "cheapest", "x", "many"], 2, "ask cheapest, most: expected long, found many."),
        (["market", "cheapest", "x", "most=-1"], 2, "cheapest: most: expected a number from 0 on, found -1."),
        (["orders", "schema"], 2, "expected the service orders, found market."),
        (["market", "get", "nobody"], 1, "NOT_FOUND"),
        (["market", "get"], 2, "expected get KEY [STATE [ID]], found 0 arguments."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_command_line_says_what_is_wrong_in_one_line(
    moneystate: Moneystate, market: Server, pki: Pki, words: list[str], code: int, line: str
) -> None:
    given = files(pki, PERSONAL)
    done = moneystate(
        "ask", *words, "--address", market.address, "--tls-ca", given["ca"], "--token-file", given["token_file"]
    )  # fmt: skip
    assert (done.code, done.err.count("\n")) == (code, 1), done.err
    assert line in done.err


def test_both_examples_of_clients_say_the_same(market: Server, pki: Pki, go_clients: Path) -> None:
    given = files(pki, PERSONAL)
    flags = ["--address", market.address, "--tls-ca", given["ca"], "--token-file", given["token_file"]]
    for command in [
        [str(go_clients / "query-client")],
        [sys.executable, str(ROOT / "examples" / "python" / "get_record.py")],
    ]:
        got = run_client([*command, *flags, "get", "offers", "ann", "x2"])
        assert json.loads(got.stdout) == {"type": "Offer", "item": "x", "cents": 500, "tags": []}, got.stderr
        called = run_client([*command, *flags, "call", "cheapest", '{"item": "x", "most": 1}'])
        assert json.loads(called.stdout)[0]["cents"] == 300
        missing = run_client([*command, *flags, "get", "seller", "nobody"])
        assert (missing.returncode, missing.stderr[:11]) == (1, "NOT_FOUND: ")


def run_client(given: list[str]) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(given, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
