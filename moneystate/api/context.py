"""The context of a step: what it sees besides its record and state, and the effects it can request."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload

from moneystate.api.handles import MapTimer, Output, Timer

R = TypeVar("R")
T = TypeVar("T")


class EventSource(NamedTuple):
    """The position of the event in the log; for a timer, of the event that set it. `topic`: without prefix."""

    topic: str
    partition: int
    offset: int


class Runs(Protocol):
    """The runtime behind a context."""

    def emit(self, output: Output[Any], record: object) -> None: ...

    def remove(self, output: Output[Any], key: tuple[str | int, ...]) -> None: ...

    def set_timer(self, timer: Timer | MapTimer[Any], when: int, id: str) -> None: ...

    def cancel(self, timer: Timer | MapTimer[Any], id: str) -> None: ...

    def count(self, name: str, n: int) -> None: ...

    def dead_letter(self, reason: str, detail: str) -> None: ...

    def source(self) -> EventSource: ...

    def forget(self) -> None: ...


class Context(Generic[R]):
    """`now`: the order time in ms, of a timer its due time; `late`: the event came later than its time; `key`: of the
    record, a text; `rules`: of the run."""

    def __init__(self, runs: Runs, rules: R) -> None:
        self._runs = runs
        self.rules = rules
        self.now = 0
        self.late = False
        self.key = ""

    @property
    def source(self) -> EventSource:
        return self._runs.source()

    def emit(self, output: Output[T], record: T) -> None:
        """Write a record to an output."""
        self._runs.emit(output, record)

    def remove(self, output: Output[Any], *key: str | int) -> None:
        """Write a tombstone (a null value) to a compacted output, so that the topic keeps nothing under the key. Of a
        composite key, give the parts."""
        self._runs.remove(output, key)

    @overload
    def at(self, timer: Timer, when: int) -> None: ...
    @overload
    def at(self, timer: MapTimer[Any], when: int, id: str) -> None: ...
    def at(self, timer: Timer | MapTimer[Any], when: int, id: str = "") -> None:
        """Set a timer to `when`, in ms, in place of when it was set to. One due by `now` runs at once, after all events
        of this time."""
        self._runs.set_timer(timer, when, id)

    @overload
    def cancel(self, timer: Timer) -> None: ...
    @overload
    def cancel(self, timer: MapTimer[Any], id: str) -> None: ...
    def cancel(self, timer: Timer | MapTimer[Any], id: str = "") -> None:
        """Nothing happens where it is not set."""
        self._runs.cancel(timer, id)

    def count(self, name: str, n: int = 1) -> None:
        self._runs.count(name, n)

    def forget(self) -> None:
        """Remove everything that the service holds of the key in hand: values, maps, timers and ids seen by `unique`.
        What the step had of them is not kept."""
        self._runs.forget()

    def dead_letter(self, reason: str, detail: str = "") -> None:
        """Write the record to the dead letters, too; what the step does is kept."""
        self._runs.dead_letter(reason, detail)
