"""A user who is to be forgotten, in the state of the processor that is written by hand."""

from __future__ import annotations

from services.enrichment.state import decode_forgotten
from tests.enrichment.by_hand import BY_HAND
from tests.enrichment.stories import RULES, Story
from tests.enrichment.test_forget import forget
from tests.reference.builder import ms


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
    story = Story(RULES, BY_HAND)
    for n in range(1_000):
        story.money(f"money-{n:06}", n / 100, moneyType=f"type-{n}")
    story.play(15)
    assert sum(key[:1] == b"p" for key in entries(story)) >= 8
    forget(story, 17)
    story.play(30)
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


def test_the_oldest_wait_is_known_and_ends_with_it(by_hand: Story) -> None:
    by_hand.money("m1", 25, "s")
    by_hand.play(40)
    assert by_hand.sim.oldest == ms(20)
    by_hand.session("s", 45)
    by_hand.play(60)
    assert by_hand.sim.oldest is None
