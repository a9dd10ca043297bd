"""What sequencing reads, writes, keeps and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import moneystate as ms


@dataclass(frozen=True)
class StreamEvent:
    stream: str
    seq: int
    event_id: str
    body: ms.Json
    time: ms.Millis


@dataclass(frozen=True)
class Numbers:
    stream: str
    from_: int
    to: int


@dataclass(frozen=True)
class EventsUnavailable(Numbers):
    time: ms.Millis


@dataclass(frozen=True)
class StreamOpened:
    """The operator's: the stream begins with `first`."""

    stream: str
    first: int
    time: ms.Millis


@dataclass(frozen=True)
class SkipGap:
    stream: str
    up_to: int
    time: ms.Millis


@dataclass(frozen=True)
class Resume:
    stream: str
    time: ms.Millis


@dataclass(frozen=True)
class StreamClosed:
    stream: str
    last: int
    time: ms.Millis


@dataclass(frozen=True)
class Poisoned:
    """A `StreamEvent` of which no more than this can be read."""

    stream: str
    seq: int
    time: ms.Millis


@dataclass(frozen=True)
class Sequenced(StreamEvent):
    """`violates`: the value of `follows` after which this event must not come, if it does."""

    violates: list[str]


class GapSkipped(Numbers): ...


class GapVoid(Numbers): ...


class StreamStalled(Numbers): ...


@dataclass(frozen=True)
class EventsRequested(Numbers):
    attempt: int


@dataclass(frozen=True)
class StreamEnded:
    stream: str
    last: int


@dataclass(frozen=True)
class Unused:
    """An event that does not go to the output."""

    stream: str
    seq: int
    event: StreamEvent


class SequenceConflict(Unused): ...


class LateAfterSkip(Unused): ...


class AfterClose(Unused): ...


@dataclass(frozen=True)
class StreamParked:
    stream: str
    reason: Literal["gap", "violation"]


@dataclass(frozen=True)
class HeldLimit:
    stream: str
    held: int


@dataclass
class Stream:
    """State. `next`: the number after the last one that was passed; `held`: how many events are; `known`: what is
    missing up to here is a gap; `skip_to`: what is missing up to here is skipped; `void_to`: the highest void number;
    `previous`: the key of `follows` that the last number had; `allowed`: an event that goes out although it violates;
    `asked`: by attempt, the first clock that has not reached it; `stalled_to`: gaps up to here were reported."""

    next: int = 1
    opened: bool = False
    held: int = 0
    held_limit: bool = False
    known: int = 0
    skip_to: int = 0
    void_to: int = 0
    previous: str | None = None
    allowed: int = 0
    parked: Literal["", "gap", "violation"] = ""
    first_clock: int = 0
    next_clock: int = 0
    asked: list[int] = field(default_factory=list)
    stalled_to: int = 0
    last: int | None = None
    close_at: ms.Millis | None = None
    ended: bool = False
    forget_at: ms.Millis | None = None
    timer: ms.Millis | None = None


@dataclass(frozen=True)
class Held:
    event: StreamEvent


@dataclass(frozen=True)
class Clock:
    """State: since when the missing ones of these numbers are known."""

    from_: int
    to: int
    since: ms.Millis


@dataclass(frozen=True)
class Gap(Numbers):
    since: ms.Millis
