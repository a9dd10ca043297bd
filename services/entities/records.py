"""The records that entities reads, writes and stores. Those that each event makes are not frozen: a frozen one takes
four times as long to make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import moneystate as ms
from services.entities.merge import Status

Reason: TypeAlias = Literal["ID_CONFLICT", "ALREADY_ACTIVE", "NOT_ACTIVE", "VERSION_MISMATCH"]


@dataclass(frozen=True)
class _Event:
    entity_id: str
    event_id: str
    time: ms.Millis


@dataclass(frozen=True)
class Created(_Event):
    body: ms.Json


@dataclass(frozen=True)
class Patched(_Event):
    body: ms.Json


@dataclass(frozen=True)
class Deleted(_Event):
    pass


@dataclass(frozen=True)
class _Command:
    command_id: str
    entity_id: str
    time: ms.Millis


@dataclass(frozen=True)
class CreateRequested(_Command):
    body: ms.Json


@dataclass(frozen=True)
class PatchRequested(_Command):
    body: ms.Json
    expected_version: int | None = None


@dataclass(frozen=True)
class DeleteRequested(_Command):
    expected_version: int | None = None


Event: TypeAlias = Created | Patched | Deleted
Command: TypeAlias = CreateRequested | PatchRequested | DeleteRequested


@dataclass
class EntityChanged:
    """A visible change. `before`, `after`: None where the entity is not ACTIVE, or both where they are `too_large`."""

    entity_id: str
    version: int
    time: ms.Millis
    before: ms.Json | None
    after: ms.Json | None
    cause: str
    too_large: bool = False


@dataclass
class CommandResult:
    command_id: str
    entity_id: str
    status: Literal["ACCEPTED", "REJECTED"]
    reason: Reason | None
    version: int


@dataclass
class Entity:
    """The whole entity. `body`: None where it is not ACTIVE or `too_large`."""

    entity_id: str
    status: Status
    version: int
    body: ms.Json | None
    too_large: bool = False


# State


@dataclass
class Stored:
    """`text`: of a `Merge` (`texts`), continued in so many `pieces`; `fields`: the configured ones, by JSON Pointer, of
    an entity that is ACTIVE."""

    entity_id: str = ""
    status: Status = "UNKNOWN"
    version: int = 0
    text: str = ""
    pieces: int = 0
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    text: str


@dataclass
class Known:
    """An event or a command. `digest`: of its content; `result`: of a command."""

    digest: bytes
    result: CommandResult | None = None


@dataclass
class Change:
    """The one that made the version of the entry's id. `before`: None where the entity was not ACTIVE or `too_large`;
    what was after it is before the next one."""

    time: ms.Millis
    cause: str
    before: ms.Json | None
    too_large: bool
