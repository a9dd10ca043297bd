"""Spans as plain values, for those who do not know OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

Attributes = Mapping[str, str | int | float | bool]


class Span(NamedTuple):
    """A finished span, with those inside it."""

    name: str
    begun_ns: int  # since the epoch
    ended_ns: int
    attributes: Attributes = MappingProxyType({})
    children: Sequence[Span] = ()
    error: str = ""  # without values of records; empty: none


class Answered(NamedTuple):
    """Holds what the span of a call says of its answer."""

    rows: int
    version: str  # of the state; empty: none


class OpenCall(Protocol):
    def end(self, code: int, answered: Answered | None = None) -> None:
        """`code`: of gRPC."""
        ...


class ServedCalls(Protocol):
    def serve(self, path: str, metadata: Iterable[tuple[str, Any]]) -> OpenCall:
        """`path`: /package.Service/Method."""
        ...


class OpenRequest(OpenCall, Protocol):
    @property
    def metadata(self) -> Iterable[tuple[str, str]]:
        """Returns what continues the trace in the server."""
        ...


class RequestedCalls(Protocol):
    def call(self, path: str) -> OpenRequest: ...
