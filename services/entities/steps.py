"""The steps of entities: what an event and a command do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

import moneystate as ms
from moneystate.records.json_number import Number
from moneystate.records.json_text import parse
from services.entities import records as r
from services.entities import texts
from services.entities.config import Config
from services.entities.merge import Kind, Stamp, cause_and_time, command_stamp, event_stamp

T = TypeVar("T")
TOO_LARGE_BYTES: Final = 900_000  # Kafka takes records of 1 MB
MAX_ID_BYTES: Final = 1_000
MAX_FIELD: Final = 200  # characters of a text in an index
KINDS: Final[dict[type, Kind]] = {
    r.Created: "created",
    r.CreateRequested: "created",
    r.Patched: "patched",
    r.PatchRequested: "patched",
    r.Deleted: "deleted",
    r.DeleteRequested: "deleted",
}


class Steps:
    def __init__(self, service: ms.Service[Config]) -> None:
        rules = service.rules
        self.stored = service.value("stored", r.Stored)
        self.pieces = service.map("pieces", r.Piece)
        self.history = service.map("history", r.Change, ttl_ms=rules.history_retention_ms)
        self.known_events = service.map("known_events", r.Known, ttl_ms=rules.merge_window_ms)
        self.known_commands = service.map("known_commands", r.Known, ttl_ms=rules.command_retention_ms)

        def output(topic: str, record: type[T]) -> ms.Output[T]:
            return service.output(topic, record, key="entity_id", compacted=topic == "entities", format=rules.format)

        self.changes = output("entity-changes", r.EntityChanged)
        self.results = output("entity-command-results", r.CommandResult)
        self.entities = output("entities", r.Entity)
        self.conflicts = {record: output("entity-conflicts", record) for record in (r.Created, r.Patched, r.Deleted)}

    def take_event(
        self, ctx: ms.Context[Config], e: r.Event, stored: r.Stored, pieces: ms.Entries[r.Piece],
        history: ms.Entries[r.Change], known_events: ms.Entries[r.Known],
    ) -> None:  # fmt: skip
        body = _body(e, e.event_id)
        if ctx.now >= e.time + ctx.rules.merge_window_ms:  # rule 2
            ctx.count("too_old")
            return
        digest = _digest(e, e.time)
        known = known_events.get(e.event_id)
        if known is None:
            known_events.put(e.event_id, r.Known(digest))
            self._write(ctx, stored, pieces, history, event_stamp(e.time, e.event_id), KINDS[type(e)], body)
        elif known.digest == digest:  # rule 3
            ctx.count("duplicates")
        else:
            ctx.count("conflicts")
            ctx.emit(self.conflicts[type(e)], e)

    def take_command(
        self, ctx: ms.Context[Config], c: r.Command, stored: r.Stored, pieces: ms.Entries[r.Piece],
        history: ms.Entries[r.Change], known_commands: ms.Entries[r.Known],
    ) -> None:  # fmt: skip
        """Rule 5."""
        body = _body(c, c.command_id)
        digest = _digest(c, None if isinstance(c, r.CreateRequested) else c.expected_version)
        known = known_commands.get(c.command_id)
        if known is None:
            reason = _refusal(c, stored)
            if reason is None:
                _, partition, offset = ctx.source
                stamp = command_stamp(ctx.now, partition, offset, c.command_id)
                self._write(ctx, stored, pieces, history, stamp, KINDS[type(c)], body)
            known = r.Known(digest, _result(c, reason, stored))
            known_commands.put(c.command_id, known)
        result = known.result if known.digest == digest else None
        ctx.emit(self.results, result or _result(c, "ID_CONFLICT", stored))

    def _write(
        self, ctx: ms.Context[Config], stored: r.Stored, pieces: ms.Entries[r.Piece], history: ms.Entries[r.Change],
        stamp: Stamp, kind: Kind, body: dict[str, Any],
    ) -> None:  # fmt: skip
        """Rules 1 and 4."""
        text = texts.whole_text(stored, pieces.items())
        before = texts.visible_body(stored, text)
        merge = texts.merge_of(text)
        merge.write(stamp, kind, body)
        merge.forget(ctx.now - ctx.rules.merge_window_ms)  # rule 2: all that comes is newer
        text = texts.text_of(merge)
        texts.keep_text(text, stored, pieces)
        stored.entity_id, stored.status = ctx.key, merge.status
        after = texts.visible_body(stored, text)
        if before == after:
            return
        stored.version += 1
        cause, _ = cause_and_time(stamp)
        stored.fields = {} if after is None else _fields(merge.document, ctx.rules.fields)
        (old, new), too_large = fitting(before, after)
        ctx.emit(self.changes, r.EntityChanged(ctx.key, stored.version, ctx.now, old, new, cause, too_large))
        (whole,), too_large = fitting(after)
        ctx.emit(self.entities, r.Entity(ctx.key, stored.status, stored.version, whole, too_large))
        (old,), too_large = fitting(before)
        history.put(version_id(stored.version), r.Change(ctx.now, cause, old, too_large))


def version_id(version: int) -> str:
    return f"{version:012d}"


def _body(record: r.Event | r.Command, id: str) -> dict[str, Any]:
    """Empty of a deletion."""
    for text in (record.entity_id, id):
        if len(text.encode()) > MAX_ID_BYTES:
            raise ms.Reject("id_too_long", f"{len(text.encode()):,} bytes, at most {MAX_ID_BYTES:,} are allowed")
    body = {} if isinstance(record, (r.Deleted, r.DeleteRequested)) else parse(record.body.text)
    if type(body) is not dict:
        raise ms.Reject("not_an_object", "the body is no JSON object")
    return body


def _digest(record: r.Event | r.Command, besides: int | None) -> bytes:
    body = "" if isinstance(record, (r.Deleted, r.DeleteRequested)) else record.body.text
    return blake2b(f"{type(record).__name__} {besides} {body}".encode(), digest_size=16).digest()


def _refusal(c: r.Command, stored: r.Stored) -> r.Reason | None:
    if isinstance(c, r.CreateRequested):
        return "ALREADY_ACTIVE" if stored.status == "ACTIVE" else None
    if stored.status != "ACTIVE":
        return "NOT_ACTIVE"
    return None if c.expected_version in (None, stored.version) else "VERSION_MISMATCH"


def _result(c: r.Command, reason: r.Reason | None, stored: r.Stored) -> r.CommandResult:
    status: Any = "ACCEPTED" if reason is None else "REJECTED"
    return r.CommandResult(c.command_id, c.entity_id, status, reason, stored.version)


def fitting(*bodies: ms.Json | None) -> tuple[Sequence[ms.Json | None], bool]:
    """The bodies, or None in place of each where they are too large together."""
    text = "".join([body.text for body in bodies if body is not None])
    too_large = len(text) > TOO_LARGE_BYTES // 4 and len(text.encode()) > TOO_LARGE_BYTES
    return ([None] * len(bodies) if too_large else bodies), too_large


def _fields(document: dict[str, Any], pointers: Iterable[str]) -> dict[str, str]:
    """Returns what stands at JSON Pointers (RFC 6901): texts, and numbers and truth values as JSON, none of them
    long."""
    fields = {}
    for pointer in pointers:
        value: Any = document
        for name in pointer.split("/")[1:]:
            value = value.get(name.replace("~1", "/").replace("~0", "~")) if type(value) is dict else None
        text = ("true" if value else "false") if type(value) is bool else value
        if type(text) in (str, Number) and len(text) <= MAX_FIELD:
            fields[pointer] = str(text)
    return fields
