"""Compares the outputs with the scenario's promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.enrichment.demo.scenario import Chapter, Enriched, Promise, Send

Place = tuple[str, int, int]  # topic, partition, offset


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter from the output."""

    place: Place  # of the rejected record
    reason: str


@dataclass
class Arrivals:
    """The records read from Kafka. The money of each user is in the order of its partition."""

    money: list[Enriched] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)


@dataclass(frozen=True)
class StepVerdict:
    """A step of the demo, with its promise and its output."""

    step: int
    sends: tuple[Send, ...]
    promise: Promise | None  # None: the event is not money, so it has no output
    outputs: tuple[Enriched, ...]
    refused: tuple[str, ...]  # reasons of dead letters

    @property
    def promised(self) -> tuple[Enriched, ...]:
        outcome = self.promise.outcome if self.promise else None
        return () if outcome is None else (outcome,)

    @property
    def held(self) -> bool:
        return self.outputs == self.promised and not self.refused


@dataclass(frozen=True)
class ChapterVerdict:
    """A chapter of the demo, with its output."""

    chapter: Chapter
    steps: tuple[StepVerdict, ...]
    strays: tuple[str, ...]  # outputs that belong to none of the chapter's steps; there must be none

    @property
    def held(self) -> bool:
        return all(s.held for s in self.steps) and not self.strays


def judge(chapter: Chapter, places: Mapping[Place, Send], arrivals: Arrivals) -> ChapterVerdict:
    """Assigns outputs to the steps of a chapter. `places`: of the chapter's events in Kafka. `arrivals`: all records
    that were written since the chapter was sent.

    Several steps may send the same money id. Its outputs go, in order, to the steps that promise an output. A further
    output goes to a step that promises none, or else to the last step, and breaks its promise.
    """
    promises = {p.step: p for p in chapter.promises}
    outputs: dict[int, list[Enriched]] = {step: [] for step in chapter.steps}
    refused: dict[int, list[str]] = {step: [] for step in chapter.steps}
    strays: list[str] = []
    seen: dict[str, int] = {}
    for out in arrivals.money:
        takers = _takers(chapter, promises, out.money_id)
        nth = seen[out.money_id] = seen.get(out.money_id, 0) + 1
        if takers:
            outputs[takers[min(nth, len(takers)) - 1]].append(out)
        else:
            strays.append(stray_money(out))
    for letter in arrivals.dead_letters:
        if letter.place in places:
            refused[places[letter.place].step].append(letter.reason)
        else:
            strays.append(stray_letter(letter))
    return ChapterVerdict(
        chapter,
        tuple(
            StepVerdict(
                step,
                tuple(s for s in chapter.sends if s.step == step),
                promises.get(step),
                tuple(outputs[step]),
                tuple(refused[step]),
            )
            for step in chapter.steps
        ),
        tuple(strays),
    )


def _takers(chapter: Chapter, promises: Mapping[int, Promise], money_id: str) -> Sequence[int]:
    steps = [s.step for s in chapter.sends if s.money_id == money_id]
    promising = [step for step in steps if step in promises and promises[step].outcome is not None]
    return promising + [step for step in steps if step not in promising]


def stray_money(out: Enriched) -> str:
    return f"money {out.money_id} ({out.status}), for which nothing more was promised"


def stray_letter(letter: DeadLetter) -> str:
    topic, partition, offset = letter.place
    return f"a dead letter: {topic}, partition {partition}, offset {offset} ({letter.reason})"
