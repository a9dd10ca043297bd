"""In Kafka a header's name is bytes; Python's client takes it for a text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moneystate.bootstrap.archive import _archived_record
from moneystate.engine.block import unpack
from moneystate.engine.items import NO_TIME
from moneystate.engine.plan import Plan
from moneystate.job.source_reading import TaskRead, read_blocks
from moneystate.kafka.client import headers_of
from moneystate.kafka.ranges import Range, RangeReader, discard_readers
from moneystate.kafka.source_spec import SourceSpec
from tests.enrichment import topics
from tests.kafka import raw_headers
from tests.kafka.logs import Cluster

WALLET = topics.PLAN.input_topics()[0]
LEFT_OUT = ("moneystate.headers", b"left out: a name that is not UTF-8")


@pytest.fixture(autouse=True)
def _no_readers_left() -> Iterator[None]:
    yield
    discard_readers()


@pytest.fixture(autouse=True)
def _hot(cluster: Cluster) -> None:
    """The interpreter checks less in a call that it has made often."""
    name = cluster.create("plain")
    cluster.send(name, [b"text"])
    reader = RangeReader(cluster.bootstrap_servers, {}, "group")
    (message,) = reader.read([Range(name, 0, 0, 1)])
    for _ in range(1000):
        assert headers_of(message) == []
    reader.consumer.close()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = cluster.create(WALLET.name)
    raw_headers.produce(cluster.bootstrap_servers, name, b"no event", b"\xff\xfe")
    return name


def test_a_dead_letter_whose_header_has_a_name_that_is_no_text_does_not_end_the_job(
    cluster: Cluster, topic: str
) -> None:
    spec = SourceSpec(
        cluster.bootstrap_servers, {}, cluster.prefix, "group", [WALLET], "tests.enrichment.jobs:DECODER", 8, 2, 1,
        20_000, 600_000, 2, 1_000, "rules", Plan("rules", {}, {}).to_offset(), True, False, None, "",
    )  # fmt: skip
    blocks = read_blocks(spec, TaskRead(0, 1, NO_TIME, [(WALLET.name, 0, 0, 1, 1, NO_TIME, 0)], None), {0})
    ((_, _, value, headers),) = [passed for block in blocks for passed in unpack(block).passed]
    assert value == b"no event"
    assert LEFT_OUT in headers
    assert ("moneystate.reason", b"unknown_schema") in headers


def test_an_archive_holds_it_as_the_job_reads_it(cluster: Cluster, topic: str) -> None:
    reader = RangeReader(cluster.bootstrap_servers, {}, "group")
    (message,) = reader.read([Range(topic, 0, 0, 1)])
    assert _archived_record(message).headers == [LEFT_OUT]
    reader.consumer.close()
