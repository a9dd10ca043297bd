"""Watching changes: from now on, and from a version that was seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moneystate.devbroker import DevBroker
from moneystate.query.v1 import watch_pb2
from moneystate.serving.client import Client
from tests.query.contracts import CONTRACTS, Contract, Told
from tests.query.serving import Server, is_at, new_cluster, wait_for
from tests.query.test_reads import at


def test_a_watch_resumes_after_any_version(told: Told, asking: Client) -> None:
    def since(batch: int) -> dict[int, list[tuple[str, str]]]:
        after = told.contract.at(batch).version
        return whole_versions(told, asking.stream(*told.contract.watch(after=after)), until=2)

    changes = since(0)
    assert ("ann", "PT") in changes[1]
    assert len({key for key, _ in changes[1]}) == len(changes[1]) > 150
    assert {key for key, _ in changes.get(2, [])} == told.contract.changed_later
    assert since(1) == {batch: changes[batch] for batch in changes if batch == 2}


def test_one_users_changes(client: Client) -> None:
    stream = client.stream("Watch.WatchUser", watch_pb2.WatchUserRequest(user_id="bob", after=at(0).version))
    first = next(m for m in stream if m.HasField("change"))
    assert first.header.version.batch == 2
    assert first.change.user.birth_year.value == "1999"
    stream.cancel()


def test_a_watch_says_at_once_where_it_is(told: Told, asking: Client) -> None:
    stream = asking.stream(*told.contract.watch_key("nobody"))
    message = next(stream)
    assert message.header.version.batch == 2
    assert not any(field.name in ("change", "changes") for field, _ in message.ListFields())
    stream.cancel()


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_changes_come_as_they_are_written(broker: DevBroker, tmp_path: Path, contract: Contract) -> None:
    cluster = new_cluster(broker)
    with Server(cluster, tmp_path / "replica", *contract.flags, job=contract.job(cluster)) as live:
        contract.move(live.job, "ES", 2)
        live.caught_up(0)
        with live.client() as client:
            stream = client.stream(*contract.watch())
            next(stream)
            contract.move(live.job, "PT", 12)
            seen = next(m for m in stream if m.changes)
            assert contract.changed(seen) == [("ann", "PT")]
            stream.cancel()
            assert contract.country(client.call(*contract.get("ann", at=contract.at(0)))) == "ES"
            contract.move(live.job, "FR", 22)
            wait_for(lambda: is_at(client, 2))
            resumed = client.stream(*contract.watch(after=seen.header.version))
            again = next(m for m in resumed if m.changes)
            assert contract.changed(again) == [("ann", "FR")]
            resumed.cancel()


def whole_versions(told: Told, stream: Any, until: int) -> dict[int, list[tuple[str, str]]]:
    """Keys and countries by batch, up to that one."""
    versions: dict[int, list[tuple[str, str]]] = {}
    for message in stream:
        batch = message.header.version.batch
        if changed := told.contract.changed(message):
            versions.setdefault(batch, []).extend(changed)
        if batch == until and not message.more:
            stream.cancel()
            break
    return versions
