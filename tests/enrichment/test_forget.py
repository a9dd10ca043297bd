"""A user who is to be forgotten: what goes, what stays, and the proof."""

from __future__ import annotations

import pytest

from moneystate.runtime import layout
from moneystate.runtime.cells import decode_entry
from tests.enrichment import topics
from tests.enrichment.stories import LONG_AFTER, RULES, Story
from tests.reference.builder import ms
from tests.reference.model import USER


def forget(story: Story, time_s: float, user: str = "ann") -> None:
    story.event(USER, "ForgetUserRequested", time_s, {"id": f"r{time_s}", "userId": user, "requestedBy": "ops"})


def entries(story: Story, user: str = "ann") -> dict[bytes, bytes]:
    """All entries of a user, buffered events left out."""
    everything = {k: v for state in story.sim.states for k, v in state.entries.items()}
    return {k: v for k, v in everything.items() if layout.owner_of(k) == user.encode()}


def names(story: Story, user: str = "ann") -> list[str]:
    """The names of a user's states with entries."""
    places = [layout.place_of(key) for key in entries(story, user)]
    return sorted({place.name for place in places if place is not None})


def test_nothing_of_the_user_is_left_but_the_proof(story: Story) -> None:
    story.address("FI", 1)
    story.birth("1990", 2)
    story.session("s", 3)
    story.money("m1", 5, "s")
    forget(story, 10)
    story.play(30)
    ((key, stored),) = entries(story).items()
    proof = decode_entry(topics.PLAN.kinds["forgotten"], stored).value
    assert layout.owner_of(key) == b"ann"
    assert (proof.request_id, proof.requested_by, proof.at) == ("r10", "ops", ms(10))
    assert story.count("forgotten") == 1


def test_the_changelog_gets_the_tombstones_and_the_proof(story: Story) -> None:
    story.address("FI", 1)
    story.money("m1", 2, "never")
    story.play(15)
    story.sim.changes.clear()
    forget(story, 17)
    story.play(30)
    changes = dict(story.sim.changes)
    gone = {layout.place_of(key) for key, value in changes.items() if value is None}
    assert {place.name for place in gone if place is not None} >= {"user", "waiting"}
    remaining = {layout.place_of(key) for key, value in changes.items() if value is not None}
    assert {place.name for place in remaining if place is not None} == {"forgotten"}


def test_every_page_of_a_large_user_goes() -> None:
    story = Story(RULES)
    for n in range(1_000):
        story.money(f"money-{n:06}", n / 100, moneyType=f"type-{n}")
    story.play(15)
    assert sum(key[:1] == layout.SEEN for key in entries(story)) >= 8
    forget(story, 17)
    story.play(30)
    assert names(story) == ["forgotten"]


def test_money_that_waits_for_its_session_is_put_out_without_what_was_known(story: Story) -> None:
    story.address("FI", 1)
    story.money("m2", 3, "t")
    story.money("m1", 4, "s")
    forget(story, 10)
    story.play(30)
    assert story.out() == [("m2", "LOOKUP_FAILED"), ("m1", "LOOKUP_FAILED")]
    assert [value["userInfo"] for value in story.values()] == [None, None]
    assert story.count("waiting") == 0
    story.play(LONG_AFTER)
    assert len(story.out()) == 2
    assert story.left() == {}


@pytest.mark.parametrize("reply_first", [True, False])
def test_a_lookup_under_way_gives_the_same_whenever_its_reply_is_read(reply_first: bool) -> None:
    """When a reply is read is no part of the order, so money sent to lookup keeps what it was sent with."""
    story = Story(RULES)
    story.address("FI", 1)
    story.money("m1", 5, "s", isOldMoneyEvent=True)
    if reply_first:
        story.reply("m1", 5, "FOUND", "ES")
    story.play(8)
    forget(story, 20)
    story.play(40)
    if not reply_first:
        story.reply("m1", 5, "FOUND", "ES")
        story.play()
    assert story.out() == [("m1", "LOOKED_UP")]
    assert story.values()[0]["userInfo"] == {"birthYear": None, "residentCountryCode": "FI"}
    assert names(story) == ["forgotten"]


def test_a_user_who_comes_again_is_new_and_the_proof_stays(story: Story) -> None:
    story.address("FI", 1)
    story.money("m1", 5)
    forget(story, 10)
    story.money("m1", 12)
    story.play(30)
    assert [(v["userInfo"] is None, v["firstOccurrence"]) for v in story.values()] == [(False, True), (True, True)]
    assert names(story) == ["forgotten", "user", "wallet-events"]


def test_others_keep_what_they_have(story: Story) -> None:
    story.address("FI", 1)
    story.address("ES", 1, user="bob")
    forget(story, 10)
    story.play(30)
    assert names(story, "bob") == ["user"]


def test_an_earlier_sweep_of_a_forgotten_user_does_nothing(story: Story) -> None:
    story.session("s", 1)
    forget(story, 10)
    story.play(LONG_AFTER)
    assert story.left() == {}
