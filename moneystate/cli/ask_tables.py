"""Answers of the query server on the terminal: headings, tables and the status; of `moneystate.state.v1` also as
JSON."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from moneystate.api.forgetting import FORGOTTEN
from moneystate.cli.tables import print_table
from moneystate.engine.items import END_OF_TIME
from moneystate.records import exact_json
from moneystate.records.iso_time import from_ms
from moneystate.serving.arguments import version_text
from moneystate.state.v1 import header_pb2, status_pb2
from moneystate.state.v1 import state_pb2 as s

MASKED = "(masked)"
PIPE_WIDTH = 1_000

# a pipe has no width, so rows must not be broken
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def status(answer: status_pb2.GetStatusResponse) -> None:
    heading(answer.header)
    rows = [
        ["caught up", "yes" if answer.caught_up else "no"],
        ["oldest version", version(answer.oldest)],
        ["records behind", f"{answer.lag_records:,}"],
        ["keys", f"about {answer.keys:,}"],
        ["key groups", str(answer.key_groups)],
        ["database", f"{answer.database_bytes / 1e6:,.1f} MB"],
        ["server", answer.server_version],
    ]
    rows += [[_counted(c), f"{c.entries:,}"] for c in answer.schema_counts]
    table(["what", "value"], rows)


def _counted(count: status_pb2.SchemaCount) -> str:
    """Returns what is counted: entries of a schema, or without a version what could not be used."""
    return f"{count.kind} entries, schema v{count.schema_version}" if count.schema_version else count.kind


def version(message: header_pb2.Version) -> str:
    return version_text(message) if message.epoch else "none yet"


def heading(header: header_pb2.Header) -> None:
    watermark = time_of(header.watermark_ms) if header.HasField("watermark_ms") else "none yet"
    say(f"version {version(header.version)}, watermark {watermark}, {header.staleness_ms:,} ms old")


def table(columns: list[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """Prints texts literally: values from events must not be read as markup, and their control characters must not
    reach a terminal."""
    cells = [[_plain(str(cell)) for cell in row] for row in rows]
    if cells:
        print_table(console, columns, cells, _plain(title).plain)
    else:
        console.print(Text("nothing"))


def _plain(text: str) -> Text:
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def say(text: str) -> None:
    console.print(_plain(text))


def place_of(event_source: header_pb2.Source) -> str:
    return f"{event_source.topic}[{event_source.partition}]@{event_source.offset}"


def time_of(ms: int) -> str:
    return "the end (drained)" if ms >= END_OF_TIME else from_ms(ms)


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
    heading(header)
    by_state: dict[str, list[s.Record]] = {}
    for record in shown:
        by_state.setdefault(record.name.state, []).append(record)
    if not by_state:
        say("nothing")
    for state, its in by_state.items():
        with_ids = any(record.name.id for record in its)
        fields = list(dict.fromkeys(name for record in its for name in _fields(record)))
        columns = [state, *(["id"] if with_ids else []), *fields]
        rows = ([r.name.key, *([r.name.id] if with_ids else []), *_cells(r, fields)] for r in its)
        table(columns, rows)


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
    heading(answer.header)
    value = content(answer.result)
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, dict) for item in items):
        names = list(dict.fromkeys(name for item in items for name in item))
        table(names, ([_text(item.get(name)) for name in names] for item in items))
    elif not items:
        say("nothing")
    for item in items:
        if not isinstance(item, dict):
            say(_text(item))
    if answer.result.masked:
        say(f"masked: {', '.join(answer.result.masked)}")


def changes(header: header_pb2.Header, shown: Sequence[s.Change]) -> None:
    heading(header)
    rows: list[list[Any]] = []
    for change in shown:
        before, after = _fields(change.before), _fields(change.after)
        name_of = change.after.name
        names = [n for n in dict.fromkeys([*before, *after]) if _differ(before.get(n), after.get(n))]
        rows += [[name_of.state, name_of.key, name_of.id, n, _text(before.get(n)), _text(after.get(n))] for n in names]
    table(["state", "key", "id", "field", "before", "after"], rows)


def _differ(before: Any, after: Any) -> bool:
    """Whether the JSON texts differ: for Python, 1 is true and 1.0 is 1.00."""
    return exact_json.dumps(before) != exact_json.dumps(after)


def watched(header: header_pb2.Header, shown: Iterable[s.Record]) -> None:
    for record in shown:
        known = ", ".join(f"{name} {_text(value)}" for name, value in _fields(record).items())
        place = " ".join(part for part in (record.name.state, record.name.key, record.name.id) if part)
        say(f"{version(header.version)}  {place}: {known or ('gone' if content(record) is None else '')}")


def explained(answer: s.ExplainResponse) -> None:
    heading(answer.header)
    rows = []
    for step in answer.steps:
        known = ", ".join(f"{name} {_text(value)}" for name, value in _fields(step.record).items())
        if not step.HasField("header"):
            rows.append(["before the history", "", "", known])
            continue
        since = time_of(step.from_watermark_ms) if step.HasField("from_watermark_ms") else ""
        until = time_of(step.header.watermark_ms) if step.header.HasField("watermark_ms") else ""
        rows.append([version(step.header.version), since, until, known or "gone"])
    table(["version", "by events from", "to before", "record"], rows)
    if answer.timers:
        timers = [[t.name, t.id, time_of(t.due_ms), place_of(t.set_by)] for t in answer.timers]
        table(["timer", "id", "due", "set by"], timers)


def forget(service: str, key: str, answer: s.ForgetResponse) -> None:
    place = place_of(answer.request)
    say(f"asked to forget {key}: request {answer.request_id} at {place}")
    command = f"moneystate ask {service} get {shlex.quote(key)} {FORGOTTEN}"
    say(f"`{command}` shows the proof once the job has forgotten the key.")


def schema(answer: s.GetSchemaResponse) -> None:
    say(f"service {answer.service}")
    states = [[x.name, "map" if x.is_map else "value", f"{x.ttl_ms:,} ms" if x.ttl_ms else "", _names(x.record)]
              for x in answer.states]  # fmt: skip
    table(["state", "is", "expires after", "fields"], states)
    if answer.indices:
        indices = [[x.name, x.state, _scope(x)] for x in answer.indices]
        table(["index", "of", "needs"], indices)
    if answer.queries:
        queries = [[x.name, _names(x.arguments), _scope(x), (x.description.splitlines() or [""])[0]]
                   for x in answer.queries]  # fmt: skip
        table(["query", "arguments", "needs", ""], queries)


def _scope(declared: s.IndexSchema | s.QuerySchema) -> str:
    return "state.read.personal" if declared.personal else ""


def _names(schema: s.Schema) -> str:
    return ", ".join(field["name"] for field in exact_json.loads(schema.avro)["fields"])
