"""The part of the replica's reader (`moneystate.replica.reader.Reader`) that the server uses for any service."""

from __future__ import annotations

from typing import Protocol, TypeVar

from moneystate.replica import model


class AnySnapshot(Protocol):
    @property
    def header(self) -> model.Header: ...


Pinned = TypeVar("Pinned", bound=AnySnapshot, covariant=True)


class Pins(Protocol[Pinned]):
    def latest(self) -> Pinned: ...

    def at_version(self, version: model.Version) -> Pinned: ...

    def at_time(self, event_time_ms: int) -> Pinned: ...


class Reads(Protocol):
    def newest(self) -> model.Version | None: ...

    def changed_since(self, after: model.Version, most: int) -> set[str] | None: ...

    def status(self) -> model.Status: ...

    def close(self) -> None: ...
