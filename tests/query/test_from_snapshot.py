"""`checkpoint export --bootstrap-servers` and `serve --from-snapshot`, on a job's own checkpoint and changelog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from moneystate.devbroker import DevBroker
from moneystate.serving.client import Client
from moneystate.state.v1 import state_pb2
from tests.enrichment.topics import CHANGELOG
from tests.job.harness import Setup, finished, moneystate, small_workload
from tests.kafka.logs import Cluster
from tests.query.serving import Server, is_at, wait_for

BOUNDED = ("--until-caught-up", "--quiet", "--max-records-per-batch", "500")
SETUP = 3  # exit code


def entries(client: Client) -> dict[str, Any]:
    """The first page of the newest version, with its header."""
    answer = client.call("State.ListStored", state_pb2.ListStoredRequest(page_size=1_000))
    told: dict[str, Any] = MessageToDict(answer)
    told["header"].pop("stalenessMs", None)
    return told


@pytest.mark.long
def test_a_replica_from_a_savepoint_answers_as_one_of_the_whole_changelog(
    broker: DevBroker, topic_prefix: str, tmp_path: Path
) -> None:
    setup = Setup(broker.bootstrap_servers, topic_prefix, tmp_path)
    setup.create_inputs()
    log = small_workload("--events", "1200")
    setup.send(log[:700])
    setup.run(*BOUNDED)
    places = ("--checkpoint", str(setup.checkpoint), "--out", str(tmp_path / "savepoint"))
    servers = ("--bootstrap-servers", setup.bootstrap_servers)
    moneystate(("checkpoint", "export", *places, *servers, "--quiet"), tmp_path)
    other = finished(
        ("checkpoint", "export", *places[:3], str(tmp_path / "other"), *servers, "--key-groups", "4"), tmp_path
    )
    assert (other.code, "for replicas" in other.err) == (2, True)
    cluster = Cluster(setup.bootstrap_servers, topic_prefix)
    snapshot = ("--from-snapshot", str(tmp_path / "savepoint"))
    with Server(cluster, tmp_path / "early", *snapshot, job=setup) as early, early.client() as client:
        wait_for(lambda: is_at(client, 0), early.output)
        setup.send(log[700:])
        setup.run(*BOUNDED)
        with Server(cluster, tmp_path / "whole", job=setup) as whole, whole.client() as other_client:
            wait_for(lambda: is_at(other_client, 0), whole.output)
            want = entries(other_client)
            assert len(want["entries"]) > 50
            wait_for(lambda: entries(client) == want, early.output)
    others = Cluster(setup.bootstrap_servers, f"other-{topic_prefix}")
    others.create(CHANGELOG, 2)
    serve = ("serve", "--service", "enrichment", *servers, "--topic-prefix", others.prefix, *snapshot)
    refused = finished((*serve, "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"), tmp_path)
    assert refused.code == SETUP
    assert "the changelog is another topic of the same name" in refused.err
