"""`moneystate skew` over a real topic: all its parts are read, and the figures are those of its keys."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from moneystate.cli import main
from tests.kafka.logs import FLUSH_S, Cluster

PARTITIONS = 5
RECORDS = 20_000
HOT = 4_000  # of them


def asked(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], cluster: Cluster, *words: str) -> Any:
    flags = ["--bootstrap-servers", cluster.bootstrap_servers, "--topic-prefix", cluster.prefix, "--quiet"]
    monkeypatch.setattr("sys.argv", ["moneystate", "skew", "payments", *flags, *words])
    with pytest.raises(SystemExit) as end:
        main.main()
    printed = capfd.readouterr()
    assert end.value.code == 0, printed.err
    assert printed.err == ""
    return json.loads(printed.out) if "--json" in words else printed.out


def send(cluster: Cluster) -> None:
    """A topic whose newest records have other keys than its oldest, with one hot key and one partition that has half of
    all."""
    topic = cluster.create("payments", PARTITIONS)
    producer, chance = cluster.producer(**{"linger.ms": 20}), random.Random(2)
    for n in range(RECORDS):
        age = "old" if n < RECORDS // 2 else "new"
        user = "hot" if n % (RECORDS // HOT) == 0 else f"{age}-{chance.randrange(3_000)}"
        partition = 0 if n % 2 else chance.randrange(PARTITIONS)
        producer.produce(topic, json.dumps({"user": {"id": user}}).encode(), b"one key", partition=partition)
        producer.poll(0)
    producer.produce(topic, b"no JSON", partition=1)
    assert producer.flush(FLUSH_S) == 0


def test_the_figures_are_those_of_the_topics_keys(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    send(cluster)
    by_user = ["--key", "user.id", "--format", "payments=json", "--simulate", "4,16"]

    whole = asked(monkeypatch, capfd, cluster, *by_user, "--json")
    assert (whole["sampled"], whole["undecodable"], whole["without_key"]) == (RECORDS + 1, 1, 0)
    hot = whole["hot_keys"][0]
    assert (hot["key"], hot["sampled"], hot["share"], hot["plus_minus"]) == ("hot", HOT, HOT / RECORDS, 0)
    assert len(whole["hot_keys"]) == 10
    assert whole["kafka_partitions"]["count"] == PARTITIONS
    assert whole["kafka_partitions"]["heaviest"] == 0
    assert whole["kafka_partitions"]["heaviest_share"] == pytest.approx(0.6, abs=0.02)
    four, sixteen = whole["operator_partitions"]
    assert (four["count"], sixteen["count"]) == (4, 16)
    assert 2 < four["speed_up"] < 4
    assert sixteen["speed_up"] < RECORDS / HOT
    assert whole["advice"].startswith("One key has 20.0% of the records")

    part = asked(monkeypatch, capfd, cluster, *by_user, "--sample", "8000", "--json")
    assert part["sampled"] == pytest.approx(8_000, abs=PARTITIONS)
    assert part["hot_keys"][0]["share"] == pytest.approx(0.2, abs=2 * part["hot_keys"][0]["plus_minus"])
    assert part["distinct_keys"] > 3_000, "the newest records alone have less keys"

    shown = asked(monkeypatch, capfd, cluster, *by_user)
    assert "20,001 records sampled (100.0% of the offsets)" in shown
    assert "split this key" in shown

    one_key = asked(monkeypatch, capfd, cluster, "--json")
    assert [(k["key"], k["share"]) for k in one_key["hot_keys"]] == [("one key", 1.0)]
    assert (one_key["without_key"], one_key["undecodable"]) == (1, 0)
