"""A record that was damaged on a broker's disk is an error, never another record."""

from __future__ import annotations

import pytest

from moneystate.devbroker import DevBroker
from moneystate.errors import BrokerError
from moneystate.kafka.ranges import Range, RangeReader
from tests.kafka.logs import Cluster

VALUE = b"the value as it was sent"


def test_a_record_that_was_damaged_on_disk_is_not_delivered(broker: DevBroker, cluster: Cluster) -> None:
    topic = cluster.create("in")
    cluster.send(topic, [VALUE])
    segment = broker.log_file.parent / "data" / f"{topic}-0" / f"{0:020}.log"
    content = segment.read_bytes()
    assert VALUE in content
    with segment.open("r+b") as file:
        file.seek(content.index(VALUE))
        file.write(b"T")
    reader = RangeReader(cluster.bootstrap_servers, {}, cluster.prefix)
    try:
        with pytest.raises(BrokerError, match="CRC"):
            list(reader.read([Range(topic, 0, 0, 1)]))
    finally:
        reader.consumer.close()
