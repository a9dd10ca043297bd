"""The context of a step: what it sees besides its record and state, and the effects it can request."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload

from moneystate.api.handles import MapTimer, Output, Timer
from moneystate.api.lookup import Asked, AskedHolding, Lookup

R = TypeVar("R")
T = TypeVar("T")
Q = TypeVar("Q")
H = TypeVar("H")


class EventSource(NamedTuple):
    """The position of the event in the log; for a timer, of the event that set it."""

    topic: str  # without prefix
    partition: int
    offset: int


class Runs(Protocol):
    """The runtime behind a context."""

    def emit(self, output: Output[Any], record: object) -> None: ...

    def remove(self, output: Output[Any], key: tuple[str | int, ...]) -> None: ...

    def ask(self, lookup: Lookup[Any, Any, Any, Any], request: object, held: object) -> None: ...

    def set_timer(self, timer: Timer | MapTimer[Any], when: int, id: str) -> None: ...

    def cancel(self, timer: Timer | MapTimer[Any], id: str) -> None: ...

    def count(self, name: str, n: int) -> None: ...

    def dead_letter(self, reason: str, detail: str) -> None: ...

    def source(self) -> EventSource: ...

    def forget(self) -> None: ...


class Context(Generic[R]):
    """The information and effects that a step has besides its state."""

    def __init__(self, runs: Runs, rules: R) -> None:
        self._runs = runs
        self.rules = rules  # the run's
        self.now = 0  # order time in ms; for a timer, its due time
        self.late = False  # the event arrived behind the watermark
        self.key = ""  # the record's key as text

    @property
    def source(self) -> EventSource:
        return self._runs.source()

    def emit(self, output: Output[T], record: T) -> None:
        """Writes a record to an output."""
        self._runs.emit(output, record)

    def remove(self, output: Output[Any], *key: str | int) -> None:
        """Writes a tombstone (a null value) to a compacted output, which removes the key from the topic. For a
        composite key, give the parts."""
        self._runs.remove(output, key)

    @overload
    def ask(self, lookup: Lookup[Q, Any, Q, Asked[Q]], request: Q) -> None: ...
    @overload
    def ask(self, lookup: Lookup[Q, Any, H, AskedHolding[Q, H]], request: Q, held: H) -> None: ...
    def ask(self, lookup: Lookup[Any, Any, Any, Any], request: Any, held: Any = None) -> None:
        """Asks the lookup's service. Its function gets the reply, with `held`, or with the request if the lookup
        declares no `held`. The request has the step's key, and its time is `now`."""
        self._runs.ask(lookup, request, held)

    @overload
    def at(self, timer: Timer, when: int) -> None: ...
    @overload
    def at(self, timer: MapTimer[Any], when: int, id: str) -> None: ...
    def at(self, timer: Timer | MapTimer[Any], when: int, id: str = "") -> None:
        """Sets a timer to the order time `when`, in ms, and replaces its previous time. A time up to `now` is due at
        once: the timer runs after all events of this order time."""
        self._runs.set_timer(timer, when, id)

    @overload
    def cancel(self, timer: Timer) -> None: ...
    @overload
    def cancel(self, timer: MapTimer[Any], id: str) -> None: ...
    def cancel(self, timer: Timer | MapTimer[Any], id: str = "") -> None:
        """Cancels a timer. Does nothing if it is not set."""
        self._runs.cancel(timer, id)

    def count(self, name: str, n: int = 1) -> None:
        self._runs.count(name, n)

    def forget(self) -> None:
        """Removes all state of the current key: values, maps, timers and ids seen by `unique`. The step's own changes
        to them are discarded. What an open lookup holds stays until its reply, which alone decides what becomes of
        it."""
        self._runs.forget()

    def dead_letter(self, reason: str, detail: str = "") -> None:
        """Also writes the event to the dead letters. The effects of the step remain."""
        self._runs.dead_letter(reason, detail)
