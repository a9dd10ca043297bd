"""Offsets of topics that have just been made."""

from __future__ import annotations

from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import log_starts
from tests.kafka.logs import Cluster


def test_a_topic_that_was_just_made_has_its_offsets(cluster: Cluster) -> None:
    """Its leaders may not be known to all brokers' threads yet."""
    admin = admin_client(cluster.bootstrap_servers, {})
    for n in range(20):
        topic = cluster.create(f"new-{n}", 8)
        assert log_starts(admin, [(topic, p) for p in range(8)]) == {(topic, p): 0 for p in range(8)}
