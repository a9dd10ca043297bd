"""The commits topic is read on from where the last read ended."""

from __future__ import annotations

from moneystate.engine.marker import Marker, marker_key
from moneystate.kafka.markers import MarkerLog
from moneystate.kafka.sink import PartitionSink
from tests.kafka.logs import Cluster
from tests.kafka.test_sink import batch, config_of, write


def test_a_later_read_goes_on_and_nothing_is_fetched_in_between(cluster: Cluster) -> None:
    config = config_of(cluster)
    sink, other = PartitionSink(config, 0), PartitionSink(config, 1)
    log = MarkerLog(config.bootstrap_servers, {}, config.commits)
    for number in range(3):
        write(sink, number)
        if number == 1:
            write(other, 0)
        cluster.wait_until_stable(config.commits)
        assert log.read()[marker_key(config.application_id, 0)] == Marker("one", number + 1, f"offset {number + 1}")
        assert log.consumer.assignment() == []
    assert log.read_whole(0)[marker_key(config.application_id, 1)].next_batch == 1
    write(sink, 3)
    cluster.wait_until_stable(config.commits)
    whole = log.read_whole(0)
    assert whole[marker_key(config.application_id, 0)].next_batch == batch(3).number + 1
    assert log.consumer.assignment() == []
    log.close()
