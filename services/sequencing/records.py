"""What sequencing reads, writes, keeps and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import moneystate as ms


@dataclass(frozen=True)
class OfStream:
    stream: str


@dataclass(frozen=True)
class StreamEvent(OfStream):
    seq: int
    event_id: str
    body: ms.Json
    time: ms.Millis


@dataclass(frozen=True)
class Numbers(OfStream):
    from_: int
    to: int


@dataclass(frozen=True)
class EventsUnavailable(Numbers):
    time: ms.Millis


@dataclass(frozen=True)
class OnStream(OfStream):
    time: ms.Millis


class Resume(OnStream): ...


@dataclass(frozen=True)
class StreamOpened(OnStream):
    first: int


@dataclass(frozen=True)
class StreamRestarted(OnStream):
    """A producer has lost its count: its next event is number `first` again."""

    first: int


@dataclass(frozen=True)
class SkipGap(OnStream):
    up_to: int


@dataclass(frozen=True)
class StreamClosed(OnStream):
    last: int


@dataclass(frozen=True)
class Poisoned(OnStream):
    """A `StreamEvent` of which no more than this can be read."""

    seq: int


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
class StreamEnded(OfStream):
    last: int


@dataclass(frozen=True)
class SequenceRestarted(OfStream):
    first: int


@dataclass(frozen=True)
class Unused(OfStream):
    """An event that does not go to the output."""

    seq: int
    event: StreamEvent


class SequenceConflict(Unused): ...


class LateAfterSkip(Unused): ...


class AfterRetention(Unused):
    """A repetition or another event: the digest that would tell is no longer kept."""


class AfterClose(Unused): ...


@dataclass(frozen=True)
class StreamParked(OfStream):
    reason: Literal["gap", "violation"]


@dataclass(frozen=True)
class HeldLimit(OfStream):
    held: int


@dataclass
class Stream:
    """State. `next`: the number after the last one that was passed; `held`: how many events are; `known`: numbers from
    `next` up to here are held or in a run; `top`: no run is above; `previous`: the key of `follows` that the last
    number had; `asked`: by attempt, gaps up to here had it; `restarted`: the time of the last `StreamRestarted`."""

    next: int = 1
    opened: bool = False
    held: int = 0
    held_limit: bool = False
    known: int = 0
    top: int = 0
    previous: str | None = None
    parked: Literal["", "gap", "violation"] = ""
    asked: list[int] = field(default_factory=list)
    last: int | None = None
    close_at: ms.Millis | None = None
    ended: bool = False
    forget_at: ms.Millis | None = None
    timer: ms.Millis | None = None
    restarted: ms.Millis | None = None


@dataclass(frozen=True)
class Held:
    event: StreamEvent


@dataclass(frozen=True)
class Run:
    """State: numbers without an event. Those that are missing are a gap, known `since` then; `stalled`: it was
    reported. Void and skipped ones are kept after they were passed."""

    first: int
    last: int
    kind: Literal["missing", "void", "skipped"]
    since: ms.Millis = 0
    stalled: bool = False


@dataclass(frozen=True)
class Gap(Numbers):
    since: ms.Millis
