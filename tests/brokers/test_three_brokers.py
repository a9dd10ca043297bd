"""A cluster of three brokers: what a live job goes through when brokers go and come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import faults
from tests.brokers.cluster import ThreeBrokers
from tests.job.harness import Setup


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path / "brokers") as cluster:
        yield cluster


@pytest.mark.long
def test_a_leader_that_is_replaced_and_a_cluster_below_its_minimum_change_nothing(
    brokers: ThreeBrokers, tmp_path: Path
) -> None:
    """`make chaos ARGS=brokers` has more."""
    setup = Setup(brokers.bootstrap_servers, "three-", tmp_path)
    faults.run(brokers, setup, [faults.leader_killed, faults.below_the_minimum], 600)
