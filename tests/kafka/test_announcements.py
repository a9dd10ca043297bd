"""Query servers that announce themselves are found as long as they run, and soon forgotten after a kill."""

from __future__ import annotations

import time

import pytest

from moneystate.errors import BrokerError
from moneystate.kafka.announcements import (
    LASTS_MS,
    METRICS,
    STATE,
    TOPIC,
    Announcement,
    Announcements,
    Announcer,
    announcement_of,
)
from moneystate.kafka.offsets import log_ends
from tests.kafka.logs import FLUSH_S, Cluster
from tests.waiting import until

NEAR = Announcement("127.0.0.1:8484", STATE, "notes", "here", False)
FAR = Announcement("query.test:8484", STATE, "stock", "there", True)
PAGE = Announcement("query.test:9100", METRICS, "stock", "there", False)


@pytest.fixture
def cluster(memory_cluster: Cluster) -> Cluster:
    return memory_cluster


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def announcer(cluster: Cluster, *announced: Announcement) -> Announcer:
    return Announcer(cluster.bootstrap_servers, {}, cluster.prefix, announced)


def test_servers_are_found_until_they_end_or_are_silent(cluster: Cluster) -> None:
    with announcer(cluster, NEAR):
        listing = Announcements(cluster.bootstrap_servers, {}, cluster.prefix)
        assert listing.read(now_ms()) == [NEAR]
        with announcer(cluster, FAR, PAGE):
            assert listing.read(now_ms()) == [NEAR, FAR, PAGE]
            assert listing.read(now_ms() + LASTS_MS + 1_000) == []
        assert listing.read(now_ms()) == [NEAR]
    assert listing.read(now_ms()) == []
    listing.close()


def test_a_running_server_announces_itself_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moneystate.kafka.announcements.EVERY_S", 0.01)
    with announcer(cluster, NEAR):
        partition = cluster.prefix + TOPIC, 0
        until(lambda: log_ends(cluster.admin, [partition])[partition] >= 3, lambda: "it is silent", FLUSH_S)


def test_other_records_announce_nothing(cluster: Cluster) -> None:
    topic = cluster.create(TOPIC)
    for key, value in ((b"a", b""), (b"b", b"{"), (b"c", b"[]"), (b"d", b'{"service": 1}'), (b"\xff", NEAR.value())):
        cluster.send(topic, [value], key=key)
    listing = Announcements(cluster.bootstrap_servers, {}, cluster.prefix)
    assert listing.read(now_ms()) == []
    listing.close()


def test_a_topic_that_was_created_again_is_read_from_its_start(cluster: Cluster) -> None:
    with announcer(cluster, NEAR):
        listing = Announcements(cluster.bootstrap_servers, {}, cluster.prefix)
        assert listing.read(now_ms()) == [NEAR]
    assert listing.read(now_ms()) == []
    cluster.delete(cluster.prefix + TOPIC)
    with announcer(cluster, FAR):
        assert listing.read(now_ms()) == [FAR]
    listing.close()


def test_a_record_says_again_what_was_announced() -> None:
    assert announcement_of(FAR.address.encode(), FAR.value()) == FAR


def test_a_broker_that_is_away_is_an_error() -> None:
    lost = Announcer("127.0.0.1:1", {}, "", [NEAR])
    with pytest.raises(BrokerError, match=r"expected to announce 127\.0\.0\.1:8484, but no broker"):
        lost._write(lost.values, 0.2)
