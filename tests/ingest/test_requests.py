"""Each kind of request, over real sockets to a real process and broker: only there do HTTP, TLS and Kafka meet."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from moneystate.devbroker import DevBroker
from tests.ingest.harness import LINES, Client, Server, payment, written
from tests.query.certificates import Pki
from tests.waiting import until

PREFIX = "requests-"
DEVICE = {"payments": {"orderId": ["o1", "o2"]}}


@pytest.fixture(scope="module")
def server(broker: DevBroker) -> Iterator[Server]:
    with Server(broker.bootstrap_servers, PREFIX, "--format", "payments=json", "--max-records", "500") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Client:
    return server.client()


def values(broker: DevBroker, name: str = "payments", prefix: str = PREFIX) -> dict[tuple[int, int], Any]:
    """Records of a topic in JSON, by partition and offset."""
    return {(r.partition, r.offset): json.loads(r.value) for r in written(broker.bootstrap_servers, prefix + name)}


def ids(broker: DevBroker, prefix: str = PREFIX) -> Counter[str]:
    return Counter(value["paymentId"] for value in values(broker, prefix=prefix).values())


# -- records


def test_a_record_is_where_the_answer_says(client: Client, broker: DevBroker) -> None:
    before_ms = time.time_ns() // 1_000_000
    reply = client.post("payments", payment(1))
    assert reply.status == 202
    assert reply.headers["content-type"] == "application/json"
    place = (reply.body["partition"], reply.body["offset"])
    (record,) = [r for r in written(broker.bootstrap_servers, PREFIX + "payments") if (r.partition, r.offset) == place]
    assert record.key == b"o1"
    assert json.loads(record.value) == {"type": "PaymentTaken", **payment(1, takenAt="2026-01-31T10:00:00.000Z")}
    assert before_ms <= record.time_ms <= time.time_ns() // 1_000_000


def test_records_of_a_key_are_in_one_partition_and_in_order(client: Client) -> None:
    replies = [client.post("payments", payment(n, orderId="same")) for n in range(100, 110)]
    assert len({r.body["partition"] for r in replies}) == 1
    offsets = [r.body["offset"] for r in replies]
    assert offsets == sorted(offsets)


def test_an_array_is_taken_as_a_whole(client: Client, broker: DevBroker) -> None:
    reply = client.post("payments", [payment(n) for n in range(200, 300)])
    assert reply.status == 202
    there = values(broker)
    places = [(r["partition"], r["offset"]) for r in reply.body["records"]]
    assert [there[place]["paymentId"] for place in places] == [f"p{n}" for n in range(200, 300)]


def test_or_not_at_all_with_the_problems_of_all_records(client: Client, broker: DevBroker) -> None:
    records = [payment(300), {}, payment(302, cents="x"), payment(303)]
    reply = client.post("payments", records)
    assert (reply.status, reply.body["error"]) == (400, "INVALID_RECORD")
    assert [(p["index"], p["field"]) for p in reply.body["problems"]] == [
        (1, "paymentId"), (1, "orderId"), (1, "cents"), (1, "takenAt"), (2, "cents"),
    ]  # fmt: skip
    assert not {"p300", "p303"} & set(ids(broker))


def test_or_the_valid_ones_with_an_answer_for_each(client: Client, broker: DevBroker) -> None:
    records = [payment(400), {}, payment(402)]
    reply = client.post("payments?partial=true", records)
    assert reply.status == 207
    first, second, third = reply.body["records"]
    there = values(broker)
    assert there[first["partition"], first["offset"]]["paymentId"] == "p400"
    assert there[third["partition"], third["offset"]]["paymentId"] == "p402"
    assert second["error"] == "INVALID_RECORD"
    assert {p["index"] for p in second["problems"]} == {1}
    assert client.post("payments?partial=true", [payment(403)]).status == 202


def test_lines_and_gzip(client: Client, broker: DevBroker) -> None:
    lines = b"\n".join(json.dumps(payment(n)).encode() for n in range(500, 510))
    kind = LINES["Content-Type"]
    reply = client.post("payments", gzip.compress(lines), Content_Type=kind, Content_Encoding="gzip")
    assert (reply.status, len(reply.body["records"])) == (202, 10)
    assert {f"p{n}" for n in range(500, 510)} <= set(ids(broker))
    broken = client.post("payments?partial=true", lines + b"\n{", Content_Type=kind)
    assert broken.status == 207
    assert broken.body["records"][10]["error"] == "INVALID_RECORD"


def test_a_topic_in_avro(client: Client, broker: DevBroker) -> None:
    from examples.orders.orders import OrderPlaced
    from moneystate.runtime.plans import plan_of

    order = {"orderId": "o1", "customer": "c", "cents": 5, "placedAt": 1_769_853_600_000}
    reply = client.post("orders", order)
    assert reply.status == 202
    codec = plan_of("examples.orders.orders:service").codecs[OrderPlaced]
    (record,) = written(broker.bootstrap_servers, PREFIX + "orders")
    assert codec.decode(record.value) == OrderPlaced("o1", "c", 5, 1_769_853_600_000)


def test_refusals(client: Client) -> None:
    assert client.post("payments", b"{").body["error"] == "BAD_BODY"
    assert client.post("unheard", payment(1)).status == 404
    assert client.post("orders-closed", payment(1)).status == 404  # what the service writes
    assert client.post("payments", payment(1), Content_Type="text/plain").status == 415
    assert client.post("payments", payment(1), Content_Encoding="br").status == 415
    assert client.post("payments", [payment(n) for n in range(501)]).body["error"] == "TOO_MANY_RECORDS"
    assert client.request("GET", "/v1/payments", None, {}).status == 405
    large = client.post("payments", payment(1, paymentId="x" * 200_000))
    assert (large.status, large.body["error"]) == (413, "RECORD_TOO_LARGE")


def test_limits_hold_before_and_after_decompression(server: Server) -> None:
    bomb = gzip.compress(b" " * (1 << 20) + json.dumps(payment(1)).encode())
    assert len(bomb) < 10_000
    assert server.client().post("payments", bomb, Content_Encoding="gzip").status == 413
    assert server.client().post("payments", b" " * ((1 << 20) + 1)).status == 413


def test_a_body_without_a_length_is_cut_off(server: Server) -> None:
    client = server.client()
    parts = (b" " * 100_000 for _ in range(20))
    client.connection.request("POST", "/v1/payments", parts, {"Content-Type": "application/json"}, encode_chunked=True)
    assert client.connection.getresponse().status == 413


# -- idempotency keys


def test_a_request_with_a_key_is_written_once(client: Client, broker: DevBroker) -> None:
    first = client.post("payments", payment(600), Idempotency_Key="k600")
    again = client.post("payments", payment(600), Idempotency_Key="k600")
    assert (first.status, again.status) == (202, 202)
    assert again.body == first.body
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert ids(broker)["p600"] == 1
    assert values(broker)[first.body["partition"], first.body["offset"]]["paymentId"] == "p600"


def test_a_key_is_for_one_body(client: Client, broker: DevBroker) -> None:
    client.post("payments", payment(610), Idempotency_Key="k610")
    for reply in (
        client.post("payments", payment(611), Idempotency_Key="k610"),
        client.post("orders", payment(610), Idempotency_Key="k610"),
        client.post("payments?partial=true", [payment(610)], Idempotency_Key="k610"),
    ):
        assert reply.status in (400, 422)
    assert client.post("payments", payment(611), Idempotency_Key="k610").body["error"] == "KEY_USED"
    assert (ids(broker)["p610"], ids(broker)["p611"]) == (1, 0)
    assert client.post("payments", payment(612), Idempotency_Key="").body["error"] == "BAD_IDEMPOTENCY_KEY"


def test_an_invalid_request_does_not_use_up_its_key(client: Client) -> None:
    assert client.post("payments", {}, Idempotency_Key="k620").status == 400
    assert client.post("payments", payment(620), Idempotency_Key="k620").status == 202


def test_lists_with_a_key(client: Client, broker: DevBroker) -> None:
    records = [payment(630), payment(631)]
    assert client.post("payments", records, Idempotency_Key="k630").status == 202
    assert client.post("payments", records, Idempotency_Key="k630").headers["idempotent-replayed"] == "true"
    mixed = [payment(632), {}, payment(633)]
    first = client.post("payments?partial=true", mixed, Idempotency_Key="k632")
    again = client.post("payments?partial=true", mixed, Idempotency_Key="k632")
    assert (first.status, again.status, again.body) == (207, 207, first.body)
    assert [ids(broker)[f"p{n}"] for n in range(630, 634)] == [1, 1, 1, 1]


# -- pages and metrics


def test_the_pages_describe_the_records(client: Client) -> None:
    described = client.request("GET", "/openapi.json", None, {}).body
    content = described["paths"]["/v1/payments"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert content["oneOf"][0] == {"$ref": "#/components/schemas/PaymentTaken"}
    assert described["components"]["schemas"]["PaymentTaken"]["required"] == [
        "paymentId",
        "orderId",
        "cents",
        "takenAt",
    ]
    assert "swagger" in client.request("GET", "/docs", None, {}).body
    assert client.request("GET", "/nowhere", None, {}).status == 404


# -- WebSockets


def frames(socket: ClientConnection, count: int) -> dict[Any, dict[str, Any]]:
    """Answers by id."""
    return {answer.pop("id"): answer for answer in (json.loads(socket.recv(60)) for _ in range(count))}


def test_frames_are_answered_by_their_ids(server: Server, broker: DevBroker) -> None:
    with connect(f"ws://127.0.0.1:{server.port}/v1/payments") as socket:
        for n in range(700, 900):
            socket.send(json.dumps({"id": n, "record": payment(n)}))
        socket.send(json.dumps({"id": "bad", "record": {}}))
        socket.send(json.dumps({"id": 1.50, "record": payment(900)}).encode())
        answers = frames(socket, 202)
        for wrong in ("{", "[]", '{"record":{}}', '{"id":null,"record":{}}', '{"id":1}'):
            socket.send(wrong)
            assert frames(socket, 1)[None]["error"] == "BAD_BODY"
    there = values(broker)
    for n in range(700, 900):
        assert there[answers[n]["partition"], answers[n]["offset"]]["paymentId"] == f"p{n}"
    assert answers[1.5]["offset"] >= 0
    assert [p["field"] for p in answers["bad"]["problems"]] == ["paymentId", "orderId", "cents", "takenAt"]


def test_a_websocket_of_an_unknown_topic_is_refused(server: Server) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(f"ws://127.0.0.1:{server.port}/v1/unheard"):
        pass
    assert refused.value.response.status_code == 404


# -- TLS and tokens


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.jsonl"


GUARDED = "guarded-"


@pytest.fixture(scope="module")
def guarded(broker: DevBroker, pki: Pki, audit: Path) -> Iterator[Server]:
    flags = [*pki.tls(), "--token-key", pki.token_key, "--token-audience", "ingest", "--audit-log", str(audit)]
    with Server(broker.bootstrap_servers, GUARDED, "--format", "payments=json", *flags) as running:
        yield running


def token(pki: Pki, topics: Any, **claims: Any) -> str:
    return pki.token("", **{"aud": "ingest", "ingest": topics, **claims})


def context(pki: Pki) -> Any:
    import ssl

    return ssl.create_default_context(cafile=pki.ca)


def test_tokens_grant_topics_and_bind_fields(guarded: Server, pki: Pki, audit: Path) -> None:
    def post(given: str, topic: str, body: Any) -> int:
        return guarded.client(context(pki), given).post(topic, body).status

    assert post("", "payments", payment(1)) == 401
    assert post("nonsense", "payments", payment(1)) == 401
    assert post(token(pki, DEVICE, aud="other"), "payments", payment(1)) == 401
    assert post(token(pki, "payments"), "payments", payment(1)) == 401
    assert post(token(pki, None), "payments", payment(1)) == 403
    assert post(token(pki, DEVICE), "orders", {}) == 403
    assert post(token(pki, DEVICE), "unheard", {}) == 403
    assert post(token(pki, DEVICE), "payments", payment(1)) == 202
    assert post(token(pki, DEVICE), "payments", payment(3)) == 403
    assert post(token(pki, DEVICE), "payments", [payment(1), payment(3)]) == 403
    reply = guarded.client(context(pki), token(pki, DEVICE)).post("payments?partial=true", [payment(2), payment(3)])
    assert [r.get("error") for r in reply.body["records"]] == [None, "FIELD_NOT_GRANTED"]
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    refusals = [line["code"] for line in lines if line["event"] == "refused"]
    assert refusals[:2] == ["NO_TOKEN", "BAD_TOKEN"]
    last = {"event": "written", "subject": "tester", "topic": "payments", "records": 1, "status": 207}
    assert last.items() <= lines[-1].items()


def test_keys_of_two_callers_never_meet(guarded: Server, pki: Pki) -> None:
    one, other = (guarded.client(context(pki), token(pki, DEVICE, sub=name)) for name in ("one", "other"))
    first = one.post("payments", payment(1), Idempotency_Key="same")
    second = other.post("payments", payment(2), Idempotency_Key="same")
    assert (first.status, second.status) == (202, 202)
    assert "idempotent-replayed" not in second.headers


def test_a_caller_that_is_too_fast_waits(guarded: Server, pki: Pki) -> None:
    client = guarded.client(context(pki), token(pki, {"payments": {}}, sub="fast", ingest_rate=1))
    statuses = [client.post("payments", payment(n)) for n in range(3)]
    late = next(reply for reply in statuses if reply.status == 429)
    assert (late.body["error"], late.headers["retry-after"]) == ("TOO_FAST", "1")
    assert until(lambda: client.post("payments", payment(9)).status == 202, lambda: "never let in", 30)


def test_a_websocket_ends_with_its_token(guarded: Server, pki: Pki) -> None:
    url = f"wss://127.0.0.1:{guarded.port}/v1/payments"
    headers = {"Authorization": f"Bearer {token(pki, DEVICE, expires_in_s=3)}"}
    with pytest.raises(InvalidStatus), connect(url, ssl=context(pki)):
        pass
    with connect(url, ssl=context(pki), additional_headers=headers) as socket:
        socket.send(json.dumps({"id": 1, "record": payment(1)}))
        assert "offset" in frames(socket, 1)[1]
        socket.send(json.dumps({"id": 2, "record": payment(3)}))
        assert frames(socket, 1)[2]["error"] == "FIELD_NOT_GRANTED"

        def ended() -> bool:
            try:
                socket.send(json.dumps({"id": 3, "record": payment(1)}))
                return frames(socket, 1)[3].get("error") == "BAD_TOKEN"
            except ConnectionClosed:
                return True

        until(ended, lambda: "still open", 30)


def test_renewed_certificates_count_at_once(broker: DevBroker, tmp_path: Path, topic_prefix: str) -> None:
    import ssl

    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, new = Pki(tmp_path / "old"), Pki(tmp_path / "new")
    with Server(broker.bootstrap_servers, topic_prefix, *old.tls(), "--tls-ca", old.ca) as running:
        known = context(old)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            running.client(known).post("payments", {})
        known.load_cert_chain(old.client_cert, old.client_key)
        assert running.client(known).post("payments", {}).status == 400
        for name in ("server.pem", "server-key.pem", "ca.pem"):
            (tmp_path / "old" / name).write_bytes((tmp_path / "new" / name).read_bytes())
        renewed = context(new)
        renewed.load_cert_chain(new.client_cert, new.client_key)
        assert running.client(renewed).post("payments", {}).status == 400
        with pytest.raises((ssl.SSLError, ConnectionError)):
            running.client(known).post("payments", {})
