"""`moneystate reconciliation status` on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.api.codec import Codec
from moneystate.api.shapes import Shapes
from moneystate.cli.main import app
from moneystate.devbroker import DevBroker
from moneystate.errors import BrokerError
from services.reconciliation.completeness import COMPLETENESS
from services.reconciliation.records import Completeness
from tests.kafka.logs import Cluster
from tests.services.reconciliation.test_board import record


def status(broker: DevBroker, prefix: str, *more: str) -> None:
    flags = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", prefix, *more)
    app(["reconciliation", "status", *flags], prog_name="moneystate", standalone_mode=False)


def test_the_latest_records_are_shown_once_where_there_is_no_terminal(
    broker: DevBroker, topic_prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(broker.bootstrap_servers, topic_prefix)
    topic = cluster.create(COMPLETENESS, 2, cleanup_policy="compact")
    codec = Codec(Shapes("reconciliation").record(Completeness, "a test"))
    producer = cluster.producer()
    producer.produce(topic, codec.to_json(record("a", 1, 8, 4, 0)), key="a1", partition=0)
    producer.produce(topic, codec.to_json(record("a", 1, 8, 7, 1, revision=2)), key="a1", partition=0)
    producer.produce(topic, codec.encode(record("b", 2, 4, 4, 0)), key="b2", partition=1)
    assert producer.flush(30) == 0
    svg = tmp_path / "status.svg"
    status(broker, topic_prefix, "--svg", str(svg))
    shown = capsys.readouterr().out
    assert [word for word in shown.split() if word.endswith("%")] == ["87.50%", "100.00%"]
    assert "87.50%" in svg.read_text()
    status(broker, topic_prefix, "--pair", "b")
    assert [word for word in capsys.readouterr().out.split() if word.endswith("%")] == ["100.00%"]


def test_without_the_topic_it_says_what_to_start(broker: DevBroker, topic_prefix: str) -> None:
    with pytest.raises(BrokerError, match="start moneystate run reconciliation"):
        status(broker, topic_prefix)
