"""The commands of dead letters, over a log in memory: what is listed, and what arrives in the input topic again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moneystate.cli import main
from moneystate.engine.deadletter import ORIGIN, STEP, TIMER, Letter, write
from moneystate.engine.items import Header
from moneystate.kafka.dead_letter_log import Filter, StoredLetter
from moneystate.kafka.originals import Originals
from tests.kafka.logs import FLUSH_S, Cluster, new_consumer
from tests.reference.kafka_log import read_log

SERVICE = "examples.orders.orders:service"


@pytest.fixture
def cluster(memory_cluster: Cluster) -> Cluster:
    return memory_cluster


def stored(headers: list[Header], offset: int = 0, key: bytes = b"k", timestamp_ms: int = 50) -> StoredLetter:
    return StoredLetter(Letter("letters", 1, offset, timestamp_ms, key, b"v", headers))


def of(letter: Letter, reason: str, *more: Header) -> tuple[bytes | None, bytes | None, list[Header]]:
    key, value, headers = write(letter, reason, "why")
    return key, value, [*headers, *more]


def test_letters_are_chosen_by_reason_key_time_and_place() -> None:
    one = stored(of(Letter("t", 0, 7, 5, b"k", b"v", [("own", b"1")]), "malformed")[2], offset=3)
    assert (one.place, one.source, one.headers) == ("1/3", ("t", 0, 7), [("own", b"1")])
    fits = [
        Filter(), Filter(frozenset({"malformed"})), Filter(key=b"k"), Filter(since_ms=50), Filter(until_ms=51),
        Filter(places=frozenset({"1/3"})),
    ]  # fmt: skip
    others = [
        Filter(frozenset({"late"})), Filter(key=b"x"), Filter(since_ms=51), Filter(until_ms=50),
        Filter(places=frozenset({"1/4"})),
    ]  # fmt: skip
    assert [each.takes(one) for each in [*fits, *others]] == [True] * len(fits) + [False] * len(others)


def test_a_letter_of_a_timer_has_no_record_to_send() -> None:
    headers = of(Letter("t", 0, 7, -1, b"k", None, []), "exception", (ORIGIN, TIMER))[2]
    assert stored(headers).source is None
    assert stored([("own", b"1")]).source is None


def asked(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], cluster: Cluster, *words: str) -> Any:
    """The JSON that a command prints."""
    flags = ["--bootstrap-servers", cluster.bootstrap_servers, "--topic-prefix", cluster.prefix, "--service", SERVICE]
    monkeypatch.setattr("sys.argv", ["moneystate", "dead-letters", *words, *flags, "--json"])
    with pytest.raises(SystemExit) as end:
        main.main()
    printed = capfd.readouterr()
    assert end.value.code == 0, printed.err
    return json.loads(printed.out), printed.err


def test_records_are_listed_and_sent_again_as_they_were(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    orders, dead = cluster.create("orders", 2), cluster.create("orders-dead-letters")
    large = b"x" * 950_000
    producer = cluster.producer()
    producer.produce(orders, b'{"by":"step"}', b"key 1", partition=1, headers=[("trace", b"1")])
    producer.produce(orders, large, b"key 2", partition=1)
    letters = [
        of(Letter(orders, 0, 0, 5, b"key 0", b"{", [("trace", b"0")]), "malformed"),
        of(Letter("orders", 1, 0, -1, b"entity", b"canonical", []), "not_positive", (ORIGIN, STEP)),
        of(Letter(orders, 1, 1, 5, b"key 2", large, []), "malformed"),
        of(Letter(orders, 1, 99, -1, b"k", b"canonical", []), "not_positive", (ORIGIN, STEP)),  # no longer in the log
    ]
    for key, value, headers in letters:
        producer.produce(dead, value, key, partition=0, headers=list(headers))
    assert producer.flush(FLUSH_S) == 0
    listed, _ = asked(monkeypatch, capfd, cluster, "list")
    assert [(one["letter"], one["reason"], one["offset"]) for one in listed] == [
        ("0/0", "malformed", 0), ("0/1", "not_positive", 0), ("0/2", "malformed", 1), ("0/3", "not_positive", 99),
    ]  # fmt: skip
    ((shown,), _) = asked(monkeypatch, capfd, cluster, "show", "0/0")
    assert (shown["value"], shown["headers"], shown["detail"]) == ("{", {"trace": "0"}, "why")
    planned, _ = asked(monkeypatch, capfd, cluster, "resend")
    assert planned == {"sent": 0, "to_send": 3, "gone": 1, "topics": {orders: 3}, "confirmed": False}
    sent, log = asked(
        monkeypatch,
        capfd,
        cluster,
        "resend",
        "--reject-reason",
        "malformed",
        "--reject-reason",
        "not_positive",
        "--confirm",
    )
    assert (sent["sent"], sent["gone"]) == (3, 1)
    audit = [json.loads(line) for line in log.splitlines() if "dead letters of" in line]
    assert [(line["topic"], line["records"]) for line in audit] == [(dead, 3)] * 2
    assert audit[0]["user"]
    assert audit[0]["reasons"] == ["malformed", "not_positive"]
    records = [
        r
        for r in read_log(cluster.bootstrap_servers, [orders], make=new_consumer)[0]
        if (r.partition, r.offset) not in ((1, 0), (1, 1))
    ]
    assert sorted((r.partition, r.key, r.value) for r in records) == [
        (0, b"key 0", b"{"), (1, b"key 1", b'{"by":"step"}'), (1, b"key 2", large),
    ]  # fmt: skip
    (first,) = Originals(cluster.bootstrap_servers, {}, cluster.prefix).read([("orders", 0, 0)]).values()
    assert dict(first.headers) == {"trace": b"0", "moneystate.resent": f"{dead}/0/0".encode()}
