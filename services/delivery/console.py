"""The pages of delivery in the console: why a subscription got an event, and how its endpoints are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moneystate.console.faces import Ask, Block, Choice, Face, Note, Record, Records, Rows
from moneystate.records.iso_time import from_ms

MOST: Final = 200
LOOKED_AT: Final = 20_000  # last records of a topic
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


def endpoints(records: Records, given: Mapping[str, str]) -> Sequence[Block]:
    """Returns what workers have written of endpoints: those that have anything pending or a breaker that is not
    closed."""
    waiting = pending_of(records("delivery-pending", most=LOOKED_AT))
    statuses = {one.key: one.value for one in records("endpoint-status", most=LOOKED_AT) if one.value is not None}
    rows = [
        {
            "endpoint": name, "pending": len(waiting.get(name, ())),
            "oldest pending": _oldest(waiting.get(name, ())), **breaker_of(statuses.get(name)),
        }
        for name in sorted({*waiting, *statuses}, key=lambda name: (-len(waiting.get(name, ())), name))
    ]  # fmt: skip
    return [
        Rows("Endpoints with the most that is pending first", rows, "Nothing is pending, and no breaker has opened.")
    ]


def endpoint(records: Records, given: Mapping[str, str]) -> Sequence[Block]:
    """One endpoint: its breaker, what is pending, and its attempts and outcomes, the newest first."""
    name = given["endpoint"]
    statuses = [one.value for one in records("endpoint-status", key=name, most=1) if one.value is not None]
    waiting = pending_of(records("delivery-pending", most=LOOKED_AT)).get(name, [])
    log = [one.value for one in records("delivery-log", key=name, most=MOST) if one.value is not None]
    state = ", ".join(f"{title} {its}" for title, its in breaker_of(statuses[-1] if statuses else None).items() if its)
    return [
        Note(f"{state}. {len(waiting)} pending{f', the oldest since {_oldest(waiting)}' if waiting else ''}."),
        Rows("Attempts and outcomes", [line_of(one) for one in reversed(log)], "The log has nothing of it."),
    ]


def pending_of(records: Sequence[Record]) -> dict[str, list[Mapping[str, Any]]]:
    """Messages by endpoint, of the last record of each key. Other records of a large batch have a slash in the key."""
    latest = {one.key: one.value for one in records if "/" not in one.key}
    waiting: dict[str, list[Mapping[str, Any]]] = {}
    for message in latest.values():
        if message is not None:
            waiting.setdefault(message["endpointId"], []).append(message)
    return waiting


def breaker_of(status: Mapping[str, Any] | None) -> dict[str, Any]:
    if status is None:
        return {"breaker": "CLOSED", "because": "", "failures": 0}
    return {"breaker": status["status"], "because": status["reason"], "failures": status["failures"]}


def line_of(one: Mapping[str, Any]) -> dict[str, Any]:
    """A record of the log as a line of a timeline."""
    told = {
        "attempt": lambda: f"attempt {one['number']}: {one['status'] or one['problem']}, {one['took']} ms",
        "ended": lambda: f"{one['outcome']} after {one['attempts']} attempts{', ' + one['why'] if one['why'] else ''}",
        "cut": lambda: f"a batch of {len(one['members'])}",
        "redelivered": lambda: f"sent again, run {one['run']}",
    }  # fmt: skip
    text = told[one["kind"]]() if one["kind"] in told else one["kind"]
    return {"at": from_ms(one["at"]), "webhookId": one["webhookId"], "event": text, "answer": one.get("answer", "")}


def _oldest(waiting: Sequence[Mapping[str, Any]]) -> str:
    times = [message["routed"] for message in waiting]
    return from_ms(min(times)) if times else ""


FACES: Final = (
    Face("endpoints", "Endpoints", "what is pending, and whose breaker is open", None, look=endpoints),
    Face(
        "endpoint", "An endpoint", "its breaker, its attempts and outcomes", None, (Choice("endpoint", "Endpoint"),),
        ("endpoint",), look=endpoint,
    ),
    Face(
        "why", "Why", "why a subscription got an event, or did not", why,
        (
            Choice("topic", "Topic", hint="without prefix"), Choice("event", "Id of the event"),
            Choice("subscription", "Subscription", hint="empty: all whose type and scope match"),
        ),
        ("topic", "event"),
    ),
)  # fmt: skip
