"""Watching changes: from now on, and from a version that was seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moneystate.devbroker import DevBroker
from moneystate.query.v1 import query_pb2, watch_pb2
from moneystate.serving.client import Client
from tests.query.serving import Server, is_at, new_cluster, wait_for
from tests.query.test_reads import at


def test_a_watch_resumes_after_any_version(client: Client) -> None:
    stream = client.stream("Watch.Watch", watch_pb2.WatchRequest(after=at(0).version))
    changes = whole_versions(stream, until=2)
    assert len(changes[1]) == 301
    assert set(changes[2]) == {"ann", "bob"}
    resumed = client.stream("Watch.Watch", watch_pb2.WatchRequest(after=at(1).version))
    assert whole_versions(resumed, until=2) == {2: changes[2]}


def test_one_users_changes(client: Client) -> None:
    stream = client.stream("Watch.WatchUser", watch_pb2.WatchUserRequest(user_id="bob", after=at(0).version))
    first = next(m for m in stream if m.HasField("change"))
    assert first.header.version.batch == 2
    assert first.change.user.birth_year.value == "1999"
    stream.cancel()


def test_a_watch_says_at_once_where_it_is(client: Client) -> None:
    stream = client.stream("Watch.WatchUser", watch_pb2.WatchUserRequest(user_id="nobody"))
    message = next(stream)
    assert message.header.version.batch == 2
    assert not message.HasField("change")
    stream.cancel()


@pytest.fixture
def live(broker: DevBroker, tmp_path: Path) -> Iterator[Server]:
    """A job that goes on, and a replica of it."""
    with Server(new_cluster(broker), tmp_path / "replica") as server:
        server.job.log.address("ES", 1)
        server.job.log.beats(10)
        server.job.batch()
        yield server.caught_up(0)


def test_changes_come_as_they_are_written(live: Server) -> None:
    job = live.job
    with live.client() as client:
        stream = client.stream("Watch.Watch", watch_pb2.WatchRequest())
        next(stream)
        job.log.address("PT", 11)
        job.log.beats(20)
        job.batch()
        seen = next(m for m in stream if m.changes)
        assert [(c.user_id, c.user.resident_country_code.value) for c in seen.changes] == [("ann", "PT")]
        stream.cancel()
        pinned = query_pb2.GetUserRequest(user_id="ann", at=at(0))
        assert client.call("Query.GetUser", pinned).user.resident_country_code.value == "ES"
        job.log.address("FR", 21)
        job.log.beats(30)
        job.batch()
        wait_for(lambda: is_at(client, 2))
        resumed = client.stream("Watch.Watch", watch_pb2.WatchRequest(after=seen.header.version))
        again = next(m for m in resumed if m.changes)
        assert [(c.user_id, c.user.resident_country_code.value) for c in again.changes] == [("ann", "FR")]
        resumed.cancel()


def whole_versions(stream: Any, until: int) -> dict[int, list[str]]:
    """User ids by batch, up to that one."""
    versions: dict[int, list[str]] = {}
    for message in stream:
        batch = message.header.version.batch
        if message.changes:
            versions.setdefault(batch, []).extend(c.user_id for c in message.changes)
        if batch == until and not message.more:
            stream.cancel()
            break
    return versions
