"""What `doctor` says of the topic of a table that accepts the loss of records."""

from __future__ import annotations

import pytest

from moneystate.kafka.findings import Level, table_findings


@pytest.mark.parametrize(
    ("settings", "levels"),
    [
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, []),
        ({"cleanup.policy": "compact"}, [Level.warning]),
        ({"cleanup.policy": "delete", "retention.ms": "1000"}, [Level.warning]),
        ({}, []),
    ],
)
def test_a_topic_that_loses_records_is_named(settings: dict[str, str], levels: list[Level]) -> None:
    assert [one.level for one in table_findings(["prices"], {"prices": settings})] == levels
