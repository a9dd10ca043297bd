from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.devbroker import DevBroker
from tests.job.harness import Setup


@pytest.fixture
def setup(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> Setup:
    return Setup(broker.bootstrap_servers, topic_prefix, tmp_path)
