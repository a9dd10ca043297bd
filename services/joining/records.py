"""The records that joining reads, writes, stores and answers with. A null body or error in JSON counts as absent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import moneystate as ms


@dataclass(frozen=True)
class Part:
    """Holds what one service reports for an id: either a body or an error."""

    id: str
    service: str
    produced_at: ms.Millis
    body: ms.Json | None = None
    error: ms.Json | None = None


@dataclass(frozen=True)
class PartsRequested:
    """`services`: the services to wait for, in place of the configured ones; `body`: fields that no part overrides."""

    id: str
    requested_at: ms.Millis
    services: list[str] | None = None
    body: ms.Json | None = None


@dataclass(frozen=True)
class Cancelled:
    id: str
    cancelled_at: ms.Millis


@dataclass
class JoinedPart:
    body: ms.Json
    produced_at: ms.Millis


@dataclass
class Joined:
    """The result of an id as it is now. `missing`: expected services without a part; `merged`: the fields of all
    bodies; `conflicts`: those of them that have several values."""

    id: str
    status: Literal["COMPLETE", "PARTIAL", "CANCELLED"]
    revision: int
    parts: dict[str, JoinedPart]
    errors: dict[str, ms.Json]
    missing: list[str]
    merged: dict[str, ms.Json]
    conflicts: list[str]


@dataclass(frozen=True)
class KeptPart:
    """The part of a service that stays: a body or an error."""

    produced_at: ms.Millis
    body: ms.Json | None
    error: ms.Json | None


@dataclass(frozen=True)
class KeptRequest:
    requested_at: ms.Millis
    services: list[str] | None
    body: ms.Json | None


@dataclass
class Result:
    """State of an id. `first_at`: the order time of its first record, None of a mark; `missing`: as in `Joined`;
    `revision`: of the last record that was put out, 0 before; `content`: its digest; `ended_at`: when the id ended,
    which is all that a mark keeps beside the revision."""

    first_at: ms.Millis | None = None
    parts: dict[str, KeptPart] = field(default_factory=dict)
    request: KeptRequest | None = None
    missing: list[str] = field(default_factory=list)
    revision: int = 0
    content: bytes = b""
    ended_at: ms.Millis | None = None


@dataclass(frozen=True)
class Open:
    """An id that waits for services. `revision`: of the last record that was put out, 0 if none was."""

    id: str
    first_at: ms.Millis
    missing: list[str]
    revision: int


@dataclass(frozen=True)
class Known:
    """Holds what is known of an id. `status` ENDED: only a mark is left; NONE: nothing. `joined`: the content as it is
    now, whether or not it was put out, with the revision that was."""

    id: str
    status: Literal["NONE", "OPEN", "COMPLETE", "ENDED"]
    first_at: ms.Millis | None
    ended_at: ms.Millis | None
    joined: Joined | None
