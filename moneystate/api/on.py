"""The types of `@service.on(source, *states)`: they check a function's parameters against its declaration.

The function of an input takes (context, event, states...). The function of a timer takes (context, states...), or
(context, id, states...) if the timer belongs to a map. That of a lookup takes (context, reply, held, states...).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from moneystate.api.context import Context
from moneystate.api.handles import MapTimer, Reads, Source, Timer
from moneystate.api.lookup import Lookup

R = TypeVar("R")
E = TypeVar("E")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
G = TypeVar("G")
H = TypeVar("H")
F = TypeVar("F", bound=Callable[..., None])
Same = Callable[[F], F]


class On(ABC, Generic[R]):
    """The overloads of `on`. A subclass implements `_register`."""

    @abstractmethod
    def _register(self, source: Any, states: tuple[Any, ...], function: Callable[..., None]) -> None: ...

    @overload
    def on(self, source: Source[E], /) -> Same[Callable[[Context[R], E], None]]: ...
    @overload
    def on(self, source: Source[E], a: Reads[A], /) -> Same[Callable[[Context[R], E, A], None]]: ...
    @overload
    def on(self, source: Source[E], a: Reads[A], b: Reads[B], /) -> Same[Callable[[Context[R], E, A, B], None]]: ...
    @overload
    def on(
        self, source: Source[E], a: Reads[A], b: Reads[B], c: Reads[C], /
    ) -> Same[Callable[[Context[R], E, A, B, C], None]]: ...
    @overload
    def on(
        self, source: Source[E], a: Reads[A], b: Reads[B], c: Reads[C], d: Reads[D], /
    ) -> Same[Callable[[Context[R], E, A, B, C, D], None]]: ...
    @overload
    def on(
        self, source: Source[E], a: Reads[A], b: Reads[B], c: Reads[C], d: Reads[D], e: Reads[G], /
    ) -> Same[Callable[[Context[R], E, A, B, C, D, G], None]]: ...
    @overload
    def on(self, source: Lookup[Any, E, H, Any], /) -> Same[Callable[[Context[R], E, H], None]]: ...
    @overload
    def on(self, source: Lookup[Any, E, H, Any], a: Reads[A], /) -> Same[Callable[[Context[R], E, H, A], None]]: ...
    @overload
    def on(
        self, source: Lookup[Any, E, H, Any], a: Reads[A], b: Reads[B], /
    ) -> Same[Callable[[Context[R], E, H, A, B], None]]: ...
    @overload
    def on(self, source: Timer, /) -> Same[Callable[[Context[R]], None]]: ...
    @overload
    def on(self, source: Timer, a: Reads[A], /) -> Same[Callable[[Context[R], A], None]]: ...
    @overload
    def on(self, source: Timer, a: Reads[A], b: Reads[B], /) -> Same[Callable[[Context[R], A, B], None]]: ...
    @overload
    def on(
        self, source: Timer, a: Reads[A], b: Reads[B], c: Reads[C], /
    ) -> Same[Callable[[Context[R], A, B, C], None]]: ...
    @overload
    def on(
        self, source: Timer, a: Reads[A], b: Reads[B], c: Reads[C], d: Reads[D], g: Reads[G], /
    ) -> Same[Callable[[Context[R], A, B, C, D, G], None]]: ...
    @overload
    def on(self, source: MapTimer[Any], /) -> Same[Callable[[Context[R], str], None]]: ...
    @overload
    def on(self, source: MapTimer[Any], a: Reads[A], /) -> Same[Callable[[Context[R], str, A], None]]: ...
    @overload
    def on(
        self, source: MapTimer[Any], a: Reads[A], b: Reads[B], /
    ) -> Same[Callable[[Context[R], str, A, B], None]]: ...
    @overload
    def on(
        self, source: MapTimer[Any], a: Reads[A], b: Reads[B], c: Reads[C], /
    ) -> Same[Callable[[Context[R], str, A, B, C], None]]: ...
    @overload
    def on(
        self, source: MapTimer[Any], a: Reads[A], b: Reads[B], c: Reads[C], d: Reads[D], /
    ) -> Same[Callable[[Context[R], str, A, B, C, D], None]]: ...
    def on(self, source: Any, /, *states: Any) -> Callable[[F], F]:
        """Runs the decorated function on each record of an input, on the reply to each request of a lookup, or whenever
        a timer is due. The function receives `states`. They are loaded for a whole batch at once."""

        def register(function: F) -> F:
            self._register(source, states, function)
            return function

        return register
