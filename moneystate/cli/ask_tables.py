"""Answers of `moneystate.state.v1` as tables and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from moneystate.api.forgetting import FORGOTTEN
from moneystate.cli import answer_tables as tables
from moneystate.records import exact_json
from moneystate.state.v1 import header_pb2
from moneystate.state.v1 import state_pb2 as s

MASKED = "(masked)"


def as_json(record: s.Record) -> dict[str, Any]:
    """A record as a JSON object. `record` null: there is none."""
    named = record.name
    about = {"state": named.state, "key": named.key, **({"id": named.id} if named.id else {})}
    masked = {"masked": list(record.masked)} if record.masked else {}
    unreadable = {"unreadable": record.unreadable} if record.unreadable else {}
    return {**about, "record": content(record), **masked, **unreadable}


def content(record: s.Record) -> Any:
    return exact_json.loads(record.json) if record.HasField("json") else None


def line(record: s.Record) -> str:
    return exact_json.dumps(as_json(record))


def change_line(change: s.Change) -> str:
    after = as_json(change.after)
    return exact_json.dumps({**after, "before": content(change.before), "record": after["record"]})


def records(header: header_pb2.Header, shown: Sequence[s.Record]) -> None:
    """A table for each state."""
    tables.heading(header)
    by_state: dict[str, list[s.Record]] = {}
    for record in shown:
        by_state.setdefault(record.name.state, []).append(record)
    if not by_state:
        tables.say("nothing")
    for state, its in by_state.items():
        with_ids = any(record.name.id for record in its)
        fields = list(dict.fromkeys(name for record in its for name in _fields(record)))
        columns = [state, *(["id"] if with_ids else []), *fields]
        rows = ([r.name.key, *([r.name.id] if with_ids else []), *_cells(r, fields)] for r in its)
        tables.table(columns, rows)


def _fields(record: s.Record) -> dict[str, Any]:
    known = content(record)
    if known is None:
        return {"unreadable": record.unreadable} if record.unreadable else {}
    hidden = set(record.masked)
    return {name: MASKED if name in hidden else value for name, value in known.items() if name != "type"}


def _cells(record: s.Record, fields: Iterable[str]) -> list[str]:
    known = _fields(record)
    return [_text(known.get(name)) for name in fields]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else exact_json.dumps(value)


def result(answer: s.CallResponse) -> None:
    tables.heading(answer.header)
    value = content(answer.result)
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, dict) for item in items):
        names = list(dict.fromkeys(name for item in items for name in item))
        tables.table(names, ([_text(item.get(name)) for name in names] for item in items))
    elif not items:
        tables.say("nothing")
    for item in items:
        if not isinstance(item, dict):
            tables.say(_text(item))
    if answer.result.masked:
        tables.say(f"masked: {', '.join(answer.result.masked)}")


def changes(header: header_pb2.Header, shown: Sequence[s.Change]) -> None:
    tables.heading(header)
    rows: list[list[Any]] = []
    for change in shown:
        before, after = _fields(change.before), _fields(change.after)
        name_of = change.after.name
        names = [n for n in dict.fromkeys([*before, *after]) if _differ(before.get(n), after.get(n))]
        rows += [[name_of.state, name_of.key, name_of.id, n, _text(before.get(n)), _text(after.get(n))] for n in names]
    tables.table(["state", "key", "id", "field", "before", "after"], rows)


def _differ(before: Any, after: Any) -> bool:
    """Whether the JSON texts differ: for Python, 1 is true and 1.0 is 1.00."""
    return exact_json.dumps(before) != exact_json.dumps(after)


def watched(header: header_pb2.Header, shown: Iterable[s.Record]) -> None:
    for record in shown:
        known = ", ".join(f"{name} {_text(value)}" for name, value in _fields(record).items())
        place = " ".join(part for part in (record.name.state, record.name.key, record.name.id) if part)
        tables.say(f"{tables.version(header.version)}  {place}: {known or ('gone' if content(record) is None else '')}")


def explained(answer: s.ExplainResponse) -> None:
    tables.heading(answer.header)
    rows = []
    for step in answer.steps:
        known = ", ".join(f"{name} {_text(value)}" for name, value in _fields(step.record).items())
        if not step.HasField("header"):
            rows.append(["before the history", "", "", known])
            continue
        since = tables.time_of(step.from_watermark_ms) if step.HasField("from_watermark_ms") else ""
        until = tables.time_of(step.header.watermark_ms) if step.header.HasField("watermark_ms") else ""
        rows.append([tables.version(step.header.version), since, until, known or "gone"])
    tables.table(["version", "by events from", "to before", "record"], rows)
    if answer.timers:
        timers = [[t.name, t.id, tables.time_of(t.due_ms), tables.place_of(t.set_by)] for t in answer.timers]
        tables.table(["timer", "id", "due", "set by"], timers)


def forget(service: str, key: str, answer: s.ForgetResponse) -> None:
    place = tables.place_of(answer.request)
    tables.say(f"asked to forget {key}: request {answer.request_id} at {place}")
    command = f"moneystate ask {service} get {shlex.quote(key)} {FORGOTTEN}"
    tables.say(f"`{command}` shows the proof once the job has forgotten the key.")


def schema(answer: s.GetSchemaResponse) -> None:
    tables.say(f"service {answer.service}")
    states = [[x.name, "map" if x.is_map else "value", f"{x.ttl_ms:,} ms" if x.ttl_ms else "", _names(x.record)]
              for x in answer.states]  # fmt: skip
    tables.table(["state", "is", "expires after", "fields"], states)
    if answer.indices:
        indices = [[x.name, x.state, _scope(x)] for x in answer.indices]
        tables.table(["index", "of", "needs"], indices)
    if answer.queries:
        queries = [[x.name, _names(x.arguments), _scope(x), (x.description.splitlines() or [""])[0]]
                   for x in answer.queries]  # fmt: skip
        tables.table(["query", "arguments", "needs", ""], queries)


def _scope(declared: s.IndexSchema | s.QuerySchema) -> str:
    return "state.read.personal" if declared.personal else ""


def _names(schema: s.Schema) -> str:
    return ", ".join(field["name"] for field in exact_json.loads(schema.avro)["fields"])
