"""A service whose values can be anything that browsers misunderstand, with a field that is personal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import moneystate as ms

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Noted:
    note_id: str
    author: Annotated[str, ms.personal]
    text: str
    level: Literal["LOW", "HIGH"]
    noted_at: ms.Millis
    more: ms.Json | None = None


@dataclass(frozen=True)
class Taken:
    note_id: str
    count: int


@dataclass
class Note:
    author: Annotated[str, ms.personal] = ""
    text: str = ""
    level: Literal["LOW", "HIGH"] = "LOW"
    count: int = 0
    more: ms.Json | None = None


@dataclass
class Part:
    text: str = ""


@dataclass
class Found:
    note_id: str
    text: str
    level: Literal["LOW", "HIGH"]
    tags: list[str] = field(default_factory=list)


service = ms.Service("notes")
noted = service.input("notes", Noted, key="note_id", time="noted_at", format="json", bound_ms=1_000)
taken = service.output("notes-taken", Taken, key="note_id", format="avro")
note = service.value("note", Note)
parts = service.map("parts", Part)
reminder = service.timer("reminder")
by_level = service.index("by_level", note, lambda n: n.level if n.count else None)


@service.on(noted, note, parts)
def take(ctx: ms.Context[None], e: Noted, note: Note, parts: ms.Entries[Part]) -> None:
    if not e.text:
        raise ms.Reject("empty_text", "expected a text")
    note.author, note.text, note.level, note.more = e.author, e.text, e.level, e.more
    note.count += 1
    parts.put(f"{note.count:04d}", Part(e.text[:20]))
    ctx.at(reminder, e.noted_at + 24 * HOUR_MS)
    ctx.emit(taken, Taken(ctx.key, note.count))


@service.on(reminder, note)
def remind(ctx: ms.Context[None], note: Note) -> None:
    """Nothing: it only waits."""


@service.query
def notes_at(view: ms.View, level: Literal["LOW", "HIGH"], limit: int = 100, with_tags: bool = False) -> list[Found]:
    """The notes of a level.

    `with_tags`: what they are about, too."""
    tags = ["a", "b"] if with_tags else []
    return [Found(key, n.text, n.level, tags) for key, n in ms.first(view.find(by_level, level), limit)]


@service.query
def count_since(view: ms.View, note_id: str, since: ms.Millis) -> int:
    return view.get(note, note_id).count if view.time_ms >= since else 0
