"""The page of delivery in the console: why a subscription got an event, or did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moneystate.console.faces import Ask, Block, Choice, Face, Note, Rows

MOST: Final = 200
UNKNOWN: Final = "The router has not read the event, took it for a duplicate, or has forgotten it (why_retention)."
NOBODY: Final = "No subscription has a type and scope that match."
COLUMNS: Final = ("subscriptionId", "endpointId", "outcome", "detail", "deliveryId")


def why(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    events = ask(
        "why", topic=given["topic"], eventId=given["event"], subscription=given.get("subscription", ""), limit=MOST
    )
    return [block for event in events for block in _blocks(event)] or [Note(UNKNOWN)]


def _blocks(event: Mapping[str, Any]) -> Sequence[Block]:
    place = f"{event['topic']}, partition {event['partition']}, offset {event['offset']}"
    about = [f"{name}: {event[name]}" for name in ("type", "source", "tenant", "department") if event[name]]
    verdicts = [{name: its[name] for name in COLUMNS} for its in event["verdicts"]]
    return [Note(f"{place}. {', '.join(about)}. Received {event['time']}."), Rows("Subscriptions", verdicts, NOBODY)]


FACES: Final = (
    Face(
        "why", "Why", "why a subscription got an event, or did not", why,
        (
            Choice("topic", "Topic", hint="without prefix"), Choice("event", "Id of the event"),
            Choice("subscription", "Subscription", hint="empty: all whose type and scope match"),
        ),
        ("topic", "event"),
    ),
)  # fmt: skip
