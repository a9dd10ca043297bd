"""A user who is to be forgotten: what goes, what stays, and the proof."""

from __future__ import annotations

import pytest

from services.enrichment.state import decode_forgotten
from tests.enrichment.stories import LONG_AFTER, RULES, Story
from tests.reference.builder import ms
from tests.reference.model import USER


def forget(story: Story, time_s: float, user: str = "ann") -> None:
    story.event(USER, "ForgetUserRequested", time_s, {"id": f"r{time_s}", "userId": user, "requestedBy": "ops"})


def entries(story: Story, user: str = "ann") -> dict[bytes, bytes]:
    """All entries of a user, buffered events left out."""
    name = user.encode()
    return {k: v for state in story.sim.states for k, v in state.entries.items() if k[1:].startswith(name)}


def test_nothing_of_the_user_is_left_but_the_proof(by_hand: Story) -> None:
    by_hand.address("FI", 1)
    by_hand.birth("1990", 2)
    by_hand.session("s", 3)
    by_hand.money("m1", 5, "s")
    forget(by_hand, 10)
    by_hand.play(30)
    assert list(entries(by_hand)) == [b"fann"]
    proof = decode_forgotten(entries(by_hand)[b"fann"])
    assert (proof.request, proof.requested_by, proof.forgotten_at) == (b"r10", b"ops", ms(10))
    assert by_hand.count("forgotten") == 1


def test_the_changelog_gets_the_tombstones_and_the_proof(by_hand: Story) -> None:
    by_hand.address("FI", 1)
    by_hand.money("m1", 2, "never")
    by_hand.play(15)
    by_hand.sim.changes.clear()
    forget(by_hand, 17)
    by_hand.play(30)
    changes = dict(by_hand.sim.changes)
    assert {key[:1] for key, value in changes.items() if value is None} == {b"u", b"w"}
    assert changes[b"fann"] is not None


def test_every_page_of_a_large_user_goes() -> None:
    story = Story(RULES)
    for n in range(1_000):
        story.money(f"money-{n:06}", n / 100, moneyType=f"type-{n}")
    story.play(15)
    assert sum(key[:1] == b"p" for key in entries(story)) >= 8
    forget(story, 17)
    story.play(30)
    assert list(entries(story)) == [b"fann"]


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
    assert list(entries(story)) == [b"fann"]


def test_a_user_who_comes_again_is_new_and_the_proof_stays(by_hand: Story) -> None:
    by_hand.address("FI", 1)
    by_hand.money("m1", 5)
    forget(by_hand, 10)
    by_hand.money("m1", 12)
    by_hand.play(30)
    assert [(v["userInfo"] is None, v["firstOccurrence"]) for v in by_hand.values()] == [(False, True), (True, True)]
    assert sorted(entries(by_hand)) == [b"fann", b"uann"]


def test_others_keep_what_they_have(by_hand: Story) -> None:
    by_hand.address("FI", 1)
    by_hand.address("ES", 1, user="bob")
    forget(by_hand, 10)
    by_hand.play(30)
    assert sorted(entries(by_hand, "bob")) == [b"ubob"]


def test_an_earlier_sweep_of_a_forgotten_user_does_nothing(story: Story) -> None:
    story.session("s", 1)
    forget(story, 10)
    story.play(LONG_AFTER)
    assert story.left() == {}


def test_the_oldest_wait_is_known_and_ends_with_it(by_hand: Story) -> None:
    by_hand.money("m1", 25, "s")
    by_hand.play(40)
    assert by_hand.sim.oldest == ms(20)
    by_hand.session("s", 45)
    by_hand.play(60)
    assert by_hand.sim.oldest is None
