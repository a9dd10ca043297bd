"""The stored entries of a version, as the job's changelog has them."""

from __future__ import annotations

import json

import pytest

from moneystate.engine.keys import is_engines
from moneystate.runtime.layout import owner_of, place_of
from moneystate.serving.client import Client
from moneystate.state.v1 import header_pb2, state_pb2
from tests.query.serving import Server
from tests.query.story import Job, at


def stored(client: Client, size: int, pinned: header_pb2.At | None = None) -> list[state_pb2.StoredEntry]:
    listed: list[state_pb2.StoredEntry] = []
    request = state_pb2.ListStoredRequest(page_size=size, at=pinned)
    while True:
        answer = client.call("State.ListStored", request)
        listed += answer.entries
        if not answer.next_page_token:
            return listed
        request = state_pb2.ListStoredRequest(page_size=size, page_token=answer.next_page_token)


def entries_of(job: Job) -> list[tuple[bytes, bytes]]:
    """What the job's changelog has kept, in the order of keys."""
    there = [entry for state in job.sim.states for entry in state.entries.items() if not is_engines(entry[0])]
    return sorted(there, key=lambda entry: (owner_of(entry[0]), entry[0]))


@pytest.mark.parametrize("size", [7, 1000])
def test_they_are_those_of_the_changelog_to_the_byte(server: Server, client: Client, size: int) -> None:
    listed = [(entry.key, entry.value) for entry in stored(client, size)]
    assert [owner_of(key) for key, _ in listed] == [owner_of(key) for key, _ in entries_of(server.job)]
    assert sorted(listed) == sorted(entries_of(server.job))


def test_a_version_before_has_the_entries_of_its_time(client: Client) -> None:
    def kinds(listed: list[state_pb2.StoredEntry]) -> set[str]:
        places = [place for entry in listed if (place := place_of(entry.key)) is not None and place.owner == b"ann"]
        return {place.name for place in places}

    assert "waiting" in kinds(stored(client, 500, at(1)))
    assert "waiting" not in kinds(stored(client, 500))


def test_the_answer_has_the_rules_of_its_batch(server: Server, client: Client) -> None:
    answer = client.call("State.ListStored", state_pb2.ListStoredRequest(page_size=1))
    assert json.loads(answer.rules) == server.job.rules
