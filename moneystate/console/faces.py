"""Pages that a service brings itself: `FACES` of the module `console` in its folder.

A face asks the service's declared queries, and says what to show: tables and graphs. It makes no HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Protocol, TypeAlias

FACES: Final = "FACES"
MODULE: Final = "console"


class Ask(Protocol):
    def __call__(self, query: str, **arguments: Any) -> Any:
        """The result of a query as plain data. Raises NotThere if there is none."""


class NotThere(Exception):
    """What a face asks for does not exist."""


@dataclass(frozen=True)
class Choice:
    """Something to fill in, with its value where nothing is. `values`: those it can have; empty: any text."""

    name: str
    label: str
    default: str = ""
    values: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True)
class Line:
    """A line of a graph. `role`: mean, low and high (a band), marks (points without a line), or empty for another one;
    None among `values`: the line is broken there."""

    label: str
    values: Sequence[float | None]
    role: str = ""


@dataclass(frozen=True)
class Graph:
    """`times`: ms since 1970; `zone`: of the times that people read; `zoom`: names of the choices that a zoom sets;
    `gaps`: times without values, from and to, in ms."""

    title: str
    times: Sequence[int]
    lines: Sequence[Line]
    unit: str = ""
    zone: str = "UTC"
    zoom: tuple[str, str] | None = None
    gaps: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Rows:
    """A table of plain data: an object for each row. `empty`: what is said if there is none."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    empty: str = "nothing"


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Spot:
    """A place of a heat map. `level`: its color, 0 (good) to 4 (bad); `about`: the same in words."""

    text: str
    level: int
    about: str


@dataclass(frozen=True)
class HeatMap:
    """`rows`: by label, a spot for each column; None: there is none."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Spot | None]]
    empty: str = "nothing"


Block: TypeAlias = Graph | Rows | Note | HeatMap


@dataclass(frozen=True)
class Record:
    """A record of a topic. `value`: decoded JSON; None: a tombstone, or no JSON."""

    key: str
    value: Any
    time_ms: int


class Records(Protocol):
    """Reads the last records of a topic of the service, the oldest first. `key`: only those of it; empty: all."""

    def __call__(self, topic: str, key: str = "", most: int = 100) -> Sequence[Record]: ...


@dataclass(frozen=True)
class Face:
    """A page. `needs`: choices that must be filled in before `show` is called; `service`: whose page it is where a
    folder has several services; empty: each has it; `look`: shows what topics have, instead of `show`, to callers who
    may read them."""

    name: str
    title: str
    about: str
    show: Callable[[Ask, Mapping[str, str]], Sequence[Block]] | None
    choices: Sequence[Choice] = field(default_factory=tuple)
    needs: tuple[str, ...] = ()
    service: str = ""
    look: Callable[[Records, Mapping[str, str]], Sequence[Block]] | None = None


def faces_of(reference: str) -> Sequence[Face]:
    """The faces of the service of a reference, MODULE:NAME. Empty if its folder has no module `console`."""
    package = reference.partition(":")[0].rpartition(".")[0]
    name = f"{package}.{MODULE}" if package else ""
    if not name or find_spec(name) is None:
        return ()
    faces: Sequence[Face] = getattr(import_module(name), FACES)
    return faces
