"""What is over at a version's watermark is not in its answers, though the state has it until a sweep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moneystate.replica.differences import differences
from moneystate.replica.model import Version
from moneystate.replica.view import ReplicaView
from services.enrichment import service
from tests.replica.states import TTL_MS, State, changes, entries
from tests.replica.test_store_model import Replica

SESSIONS = changes({}, entries(b"ann", State(country="ES", sessions=(("s-1", 1), ("s-2", 2)))))
OTHER = changes({}, entries(b"bob", State(country="FR")))


@pytest.fixture
def replica() -> Iterator[Replica]:
    made = Replica()
    yield made
    made.close()


def sessions(replica: Replica, batch: int) -> list[str]:
    return [id for id in ("s-1", "s-2") if replica.record("sessions", b"ann", batch, id) is not None]


def test_a_version_has_the_entries_that_have_not_expired_at_its_watermark(replica: Replica) -> None:
    replica.apply(SESSIONS)
    for _ in range(3):
        replica.apply(OTHER)  # nothing of ann's: only the watermark advances
    assert [sessions(replica, batch) for batch in range(4)] == [["s-1", "s-2"], ["s-2"], [], []]
    matches = {
        batch: list(ReplicaView(replica.reader.at_version(Version("e", batch))).find(service.by_session, "s-1"))
        for batch in (0, 1)
    }
    assert [len(matches[0]), len(matches[1])] == [1, 0]


def test_a_version_is_read_with_the_rules_of_its_batch(replica: Replica) -> None:
    replica.apply(SESSIONS)
    for longer_ms in (0, 5, 0):
        replica.rules = {"session_ttl_ms": TTL_MS + longer_ms}
        replica.apply(OTHER)
    replica.restart()
    assert [sessions(replica, batch) for batch in range(4)] == [["s-1", "s-2"], ["s-2"], ["s-1", "s-2"], []]


def test_the_passing_of_time_is_no_difference(replica: Replica) -> None:
    for _ in range(4):
        replica.apply(SESSIONS)
    first, last = (replica.reader.at_version(Version("e", batch)) for batch in (0, 3))
    assert sessions(replica, 0) != sessions(replica, 3)
    assert differences(first, last, 9, None).items == ()
