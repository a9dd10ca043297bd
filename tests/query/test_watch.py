"""Watching changes: from now on, and from a version that was seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moneystate.devbroker import DevBroker
from moneystate.serving.client import Client
from tests.query import questions
from tests.query.market_story import MarketJob
from tests.query.serving import Server, is_at, new_cluster, wait_for


def test_a_watch_resumes_after_any_version(asking: Client) -> None:
    def since(batch: int) -> dict[int, list[tuple[str, str]]]:
        after = questions.at(batch).version
        return whole_versions(asking.stream(*questions.watch(after=after)), until=2)

    changes = since(0)
    assert ("ann", "PT") in changes[1]
    assert len({key for key, _ in changes[1]}) == len(changes[1]) > 150
    assert 2 not in changes
    assert since(1) == {}


def test_a_watch_says_at_once_where_it_is(asking: Client) -> None:
    stream = asking.stream(*questions.watch(key="nobody"))
    message = next(stream)
    assert message.header.version.batch == 2
    assert not any(field.name in ("change", "changes") for field, _ in message.ListFields())
    stream.cancel()


def test_changes_come_as_they_are_written(broker: DevBroker, tmp_path: Path) -> None:
    cluster = new_cluster(broker)
    with Server(cluster, tmp_path / "replica", job=MarketJob(cluster)) as live:
        questions.move(live.job, "ES", 2)
        live.caught_up(0)
        with live.client() as client:
            stream = client.stream(*questions.watch())
            next(stream)
            questions.move(live.job, "PT", 12)
            seen = next(m for m in stream if m.changes)
            assert questions.changed(seen) == [("ann", "PT")]
            stream.cancel()
            assert questions.country(client.call(*questions.get("ann", at=questions.at(0)))) == "ES"
            questions.move(live.job, "FR", 22)
            wait_for(lambda: is_at(client, 2))
            resumed = client.stream(*questions.watch(after=seen.header.version))
            again = next(m for m in resumed if m.changes)
            assert questions.changed(again) == [("ann", "FR")]
            resumed.cancel()


def whole_versions(stream: Any, until: int) -> dict[int, list[tuple[str, str]]]:
    """Keys and countries by batch, up to that one."""
    versions: dict[int, list[tuple[str, str]]] = {}
    for message in stream:
        batch = message.header.version.batch
        if changed := questions.changed(message):
            versions.setdefault(batch, []).extend(changed)
        if batch == until and not message.more:
            stream.cancel()
            break
    return versions
