"""The scenario: the events that are sent, and the outputs that are promised.

A file with one JSON object per line, in the order of sending:

    {"step", "title", "topic", "key", "event"}   an event for a topic
    {"advanceTo": TIME}                          a Heartbeat for every partition of the input topics
    {"step", "expect": {...} or null}            the output for the step's money; null: no further output

A chapter ends with one `advanceTo`, followed by the promises for its events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moneystate.errors import ConfigError

SHIPPED = Path(__file__).with_name("scenario.jsonl")
MONEY_TYPES = ("PaymentEvent", "TransactionEvent")
FROM_SERVICE = "@service"


@dataclass(frozen=True)
class Enriched:
    """The fields of an enriched money event that the scenario promises."""

    money_id: str
    status: str
    client_country: str | None
    user_info: tuple[str | None, str | None] | None  # birth year and country of residence
    first_occurrence: bool


@dataclass(frozen=True)
class Send:
    """An event that the demo sends."""

    step: int
    title: str
    topic: str
    key: str
    event: dict[str, Any]  # JSON form of docs/model.md section 4

    @property
    def money_id(self) -> str | None:
        return str(self.event["id"]) if self.event["type"] in MONEY_TYPES else None

    @property
    def time(self) -> str:
        return str(self.event["processedAt"])


@dataclass(frozen=True)
class Promise:
    """The promised output of a step."""

    step: int
    outcome: Enriched | None  # None: nothing
    asks_service: bool = False  # the lookup service supplies the session


@dataclass(frozen=True)
class Chapter:
    """A chapter of the demo."""

    sends: tuple[Send, ...]
    advance_to: str  # ISO-8601
    promises: tuple[Promise, ...]

    def with_service(self, country: Callable[[str], str | None]) -> Chapter:
        """The chapter, with promises completed by the lookup service. `country`: from a session id to its country."""
        sessions = {s.step: str(s.event.get("userSessionId")) for s in self.sends}
        promises = tuple(
            replace(p, outcome=replace(p.outcome, client_country=country(sessions[p.step])))
            if p.asks_service and p.outcome is not None
            else p
            for p in self.promises
        )
        return replace(self, promises=promises)

    @property
    def steps(self) -> list[int]:
        return sorted({s.step for s in self.sends})

    @property
    def wanted(self) -> int:
        """The number of promised outputs."""
        return sum(p.outcome is not None for p in self.promises)


def load(path: Path = SHIPPED) -> list[Chapter]:
    with path.open(encoding="utf-8-sig") as lines:
        return parse(lines)


def parse(lines: Iterable[str]) -> list[Chapter]:
    """Raises ConfigError, with the line number, for a line that has none of the three forms or is misplaced."""
    chapters: list[Chapter] = []
    sends: list[Send] = []
    for number, line in enumerate(lines, 1):
        try:
            _take(json.loads(line), chapters, sends)
        except (ValueError, KeyError, TypeError) as e:
            raise ConfigError(
                f"scenario, line {number}: expected an event, advanceTo or expect, found {e!r}.", "correct the line."
            ) from None
    if sends:
        raise ConfigError(
            "scenario: expected advanceTo after the last event, found none.", "add it: otherwise there is no output."
        )
    return chapters


def _take(entry: dict[str, Any], chapters: list[Chapter], sends: list[Send]) -> None:
    if "event" in entry:
        send = Send(entry["step"], entry["title"], entry["topic"], entry["key"], entry["event"])
        if not (send.event.get("id") and send.time and send.event.get("type")):
            raise ValueError("an event without type, id or processedAt")
        sends.append(send)
    elif "advanceTo" in entry:
        chapters.append(Chapter(tuple(sends), entry["advanceTo"], ()))
        sends.clear()
    else:
        _promise(_parse_promise(entry), chapters, sends)


def _promise(promise: Promise, chapters: list[Chapter], sends: list[Send]) -> None:
    if sends or not chapters or promise.step not in chapters[-1].steps:
        raise ValueError(f"a promise for step {promise.step}, which the chapter before it does not send")
    last = chapters[-1]
    chapters[-1] = Chapter(last.sends, last.advance_to, (*last.promises, promise))


def _parse_promise(entry: dict[str, Any]) -> Promise:
    expect = entry["expect"]
    if expect is None:
        return Promise(entry["step"], None)
    country = expect["clientCountryCode"]
    asks_service = country == FROM_SERVICE
    return Promise(
        entry["step"],
        Enriched(
            money_id=expect["moneyId"],
            status=expect["sessionStatus"],
            client_country=None if asks_service else country,
            user_info=user_info(expect["userInfo"]),
            first_occurrence=expect["firstOccurrence"],
        ),
        asks_service=asks_service,
    )


def user_info(fields: dict[str, str | None] | None) -> tuple[str | None, str | None] | None:
    return None if fields is None else (fields["birthYear"], fields["residentCountryCode"])
