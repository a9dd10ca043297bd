"""Every value of an enriched record says which event it came from, in the record's header and in state."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest

from services.enrichment import fingerprints as fp
from services.enrichment import topics
from services.enrichment.state import decode_user
from tests.enrichment.by_hand import BY_HAND
from tests.enrichment.stories import Story
from tests.reference.builder import ms
from tests.reference.model import WALLET

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "avro" / "headers" / "Lineage.avsc").read_text())
WALLETS, SESSIONS, USERS, REPLIES = "wallet-events", "user-session-events", "user-events", "session-lookup-results"
NAMES = {topic.code: topic.name for topic in topics.INPUTS}


@pytest.fixture
def story(by_hand: Story) -> Story:
    """The plain service writes the lineage of every plain service."""
    return by_hand


def lineages(story: Story) -> list[dict[str, Any]]:
    """Returns, for the enriched records in order, (topic, offset, seconds) of each source."""
    places = []
    for stream, _, _, headers in story.sim.outputs:
        if stream == topics.ENRICHED:
            ((name, content),) = headers
            assert name == "lineage"
            assert content is not None
            assert content.startswith(fp.LINEAGE)
            body = BytesIO(content[10:])
            value = fastavro.schemaless_reader(body, SCHEMA, None)
            assert body.read() == b""
            assert isinstance(value, dict)
            places.append({name: place(source) for name, source in value.items() if source is not None})
    return places


def place(source: dict[str, int]) -> tuple[str, int, float]:
    assert source["partition"] == 0
    return NAMES[source["topic"]], source["offset"], (source["eventTime"] - ms(0)) / 1000


def test_joined_money_names_the_events_of_all_its_values(story: Story) -> None:
    story.address("FI", 1)
    story.birth("1990", 2)
    story.session("s", 3)
    story.money("m1", 5, "s")
    story.money("m2", 6, "s")
    story.play(20)
    common = {
        "residentCountryCode": (USERS, 0, 1.0),
        "birthYear": (USERS, 1, 2.0),
        "session": (SESSIONS, 0, 3.0),
    }
    assert lineages(story) == [
        {"money": (WALLETS, 0, 5.0), **common},
        {"money": (WALLETS, 1, 6.0), "firstOfType": (WALLETS, 0, 5.0), **common},
    ]


def test_sources_survive_from_batch_to_batch(story: Story) -> None:
    story.address("FI", 1)
    story.session("s", 3)
    story.money("m1", 5, "s")
    story.play(20)
    story.money("m2", 31, "s")
    story.play(50)
    assert lineages(story)[1] == {
        "money": (WALLETS, 2, 31.0),
        "firstOfType": (WALLETS, 0, 5.0),
        "residentCountryCode": (USERS, 0, 1.0),
        "session": (SESSIONS, 0, 3.0),
    }


def test_money_that_waited_names_the_session_that_came_and_the_user_info_of_its_arrival(story: Story) -> None:
    story.address("FI", 1)
    story.money("m1", 5, "s")
    story.play(14)
    story.address("ES", 16)
    story.session("s", 20)
    story.play(30)
    assert lineages(story) == [
        {"money": (WALLETS, 0, 5.0), "residentCountryCode": (USERS, 0, 1.0), "session": (SESSIONS, 1, 20.0)}
    ]


def test_a_session_that_is_replaced_is_named_by_the_later_event(story: Story) -> None:
    story.session("s", 1)
    story.session("s", 4, country="ES")
    story.money("m1", 5, "s")
    story.play(20)
    assert lineages(story)[0]["session"] == (SESSIONS, 1, 4.0)


def test_money_looked_up_names_the_reply_whenever_it_was_read() -> None:
    told = []
    for before in (True, False):
        story = Story(core=BY_HAND)
        if not before:
            story.beat(WALLET, 50)
            story.money("m1", 1, "s")
            story.play(45)
        story.reply("m1", 40, "FOUND", "ES")
        if before:
            story.play()
            story.beat(WALLET, 50)
            story.money("m1", 1, "s")
            story.play(45)
        story.play()
        told.append(lineages(story))
    assert told[0] == told[1] == [{"money": (WALLETS, 1, 1.0), "reply": (REPLIES, 0, 40.0)}]


def test_a_duplicate_leaves_the_source_of_the_first(story: Story) -> None:
    story.money("m1", 5)
    story.money("m1", 6)
    story.play(20)
    (user,) = [
        decode_user(key[1:], entry)
        for state in story.sim.states
        for key, entry in state.entries.items()
        if key[:1] == b"u"
    ]
    ((money_id, seen_at, source),) = user.pages[0].each_id()
    assert (money_id, seen_at, len(lineages(story))) == (b"m1", ms(5), 1)
    assert lineages(story)[0]["money"] == (WALLETS, 0, 5.0)
    assert source in story.sim.outputs[0][3][0][1]  # type: ignore[operator]  # it is there
