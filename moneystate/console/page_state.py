"""The state of a service: kinds, keys, one record with its history, and differences between two versions."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moneystate.console.asking import parse_at, parse_index_value, parse_time, parse_version
from moneystate.console.decoding import content_of, share
from moneystate.console.page_queries import AT_TIME, AT_VERSION, served
from moneystate.console.servers import Asked, Server
from moneystate.console.sessions import Viewer
from moneystate.console.shown import Table, differences, field_of, fields, fitted, json_of, name_cell, whole
from moneystate.console.site import Site
from moneystate.log import get_log
from moneystate.serving.callers import READ_PERSONAL
from moneystate.state.v1 import state_pb2 as s

PAGE: Final = 50
COLUMNS: Final = 8  # of a list
MOST_EVENTS: Final = 100  # of a page of causes
_log = get_log(__name__)


async def kinds(site: Site, request: Request, viewer: Viewer) -> Response:
    servers = await asyncio.to_thread(site.servers.all, viewer.token)
    return site.render(request, viewer, "state.html", servers=servers)


async def key(site: Site, request: Request, viewer: Viewer) -> Response:
    """All values of one key, and the maps in which it has entries."""
    server = await served(site, request, viewer)
    wanted = request.query_params.get("key", "")
    position, pinned = _at(request)
    asked = s.GetRequest(name=s.RecordName(key=wanted), at=position)
    answer, problem = None, ""
    if "key" in request.query_params:
        try:
            answer = await _call(site, viewer, server, "State.Get", asked)
        except Asked as e:
            if e.code != "NOT_FOUND":
                raise
            problem = e.message
    others = await _others(site, viewer, server, wanted) if wanted else []
    return site.render(
        request, viewer, "key.html", server=server, key=wanted, answer=answer, problem=problem, others=others,
        records=[] if answer is None else [_record(one) for one in answer.records], **pinned,
    )  # fmt: skip


async def records(site: Site, request: Request, viewer: Viewer) -> Response:
    """A list of records: of a state by key, of a map's entries of one key, or of an index."""
    server = await served(site, request, viewer)
    name = request.path_params["state"]
    given = request.query_params
    position, pinned = _at(request)
    token = given.get("page", "")  # it has the version of the first page
    page: dict[str, Any] = {"page_size": PAGE, "page_token": token, "at": None if token else position}
    call: Any
    if any(index.name == name for index in server.schema.indices):
        call = s.ListRequest(index=name, **page)
        if given.get("equals"):
            call.equals.CopyFrom(parse_index_value(given["equals"]))
        method = "State.List"
    elif given.get("key") is not None and any(one.name == name and one.is_map for one in server.schema.states):
        call = s.ListEntriesRequest(map=name, key=given["key"], prefix=given.get("prefix", ""), **page)
        method = "State.ListEntries"
    else:
        call = s.ListRequest(state=name, **page)
        call.keys.prefix = given.get("prefix", "")
        method = "State.List"
    answer = await _call(site, viewer, server, method, call)
    return site.render(
        request, viewer, "records.html", server=server, name=name, answer=answer, table=_listed(answer.records),
        names=[one.name for one in answer.records], key=given.get("key"), prefix=given.get("prefix", ""),
        equals=given.get("equals", ""), is_index=method == "State.List" and call.WhichOneof("by") == "index", **pinned,
    )  # fmt: skip


async def record(site: Site, request: Request, viewer: Viewer) -> Response:
    """One record at a version, who wrote it, and what differs from another version."""
    server = await served(site, request, viewer)
    given = request.query_params
    name = s.RecordName(state=request.path_params["state"], key=given.get("key", ""), id=given.get("id", ""))
    position, pinned = _at(request)
    explained = await _call(site, viewer, server, "State.Explain", s.ExplainRequest(name=name))
    now, problem = None, ""
    try:
        now = await _call(site, viewer, server, "State.Get", s.GetRequest(name=name, at=position))
    except Asked as e:
        if e.code not in ("NOT_FOUND", "OUT_OF_RANGE"):
            raise
        problem = e.message
    since, changed = given.get("since", ""), None
    if since:
        changed = await _changed(site, viewer, server, name, since, now)
    return site.render(
        request, viewer, "record.html", server=server, name=name, now=now, problem=problem, explained=explained,
        shown=None if now is None else _record(now.records[0]), steps=_steps(explained), since=since, changed=changed,
        may_see_events=READ_PERSONAL in viewer.scopes and server.service in site.services, **pinned,
    )  # fmt: skip


async def causes(site: Site, request: Request, viewer: Viewer) -> Response:
    """The events behind a version of a record. They have all their fields, so the scope for personal ones is needed."""
    viewer.needs(READ_PERSONAL)
    given, service = request.query_params, request.path_params["service"]
    inquiry = await site.inquiry(service)
    since, before = (_watermark(given.get(name, "")) for name in ("since", "before"))
    written_at_ms = _watermark(given.get("written", ""))
    if written_at_ms is None:
        raise Asked("INVALID_ARGUMENT", "written: expected when the version was written, in ms.")
    behind = await asyncio.to_thread(inquiry.causes, given.get("key", ""), since, before, written_at_ms)
    codecs = await site.known_codecs()
    events = behind.events[:MOST_EVENTS]
    most = share(len(events))
    _log.info(f"events of {service} were read", subject=viewer.subject, records=behind.read, shown=len(behind.events))
    contents = await asyncio.to_thread(
        lambda: [content_of(one.record.value, codecs, site.registered, most) for one in events]
    )
    return site.render(
        request, viewer, "causes.html", service=service, key=given.get("key", ""), behind=behind,
        events=list(zip(events, contents, strict=True)),
    )  # fmt: skip


def _watermark(text: str) -> int | None:
    """Raises Asked."""
    return parse_time(text) if text else None


async def _changed(site: Site, viewer: Viewer, server: Server, name: s.RecordName, since: str, now: Any) -> Table:
    before = None
    try:
        request = s.GetRequest(name=name, at={"version": parse_version(since)})
        before = _content((await _call(site, viewer, server, "State.Get", request)).records[0])
    except Asked as e:
        if e.code != "NOT_FOUND":
            raise
    return differences(before, None if now is None else _content(now.records[0]))


async def _others(site: Site, viewer: Viewer, mine: Server, wanted: str) -> list[str]:
    """The other services that know a key."""
    servers = await asyncio.to_thread(site.servers.all, viewer.token)
    others = [server for server in servers if server.service != mine.service]
    request = s.GetRequest(name=s.RecordName(key=wanted))
    calls = [_call(site, viewer, server, "State.Get", request) for server in others]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, Asked):
            raise answer
    return [server.service for server, its in zip(others, answers, strict=True) if not isinstance(its, Asked)]


async def _call(site: Site, viewer: Viewer, server: Server, method: str, request: Any) -> Any:
    return await asyncio.to_thread(site.servers.call, server.address, method, request, viewer.token)


def _at(request: Request) -> tuple[Any, dict[str, Any]]:
    version, time = request.query_params.get(AT_VERSION, ""), request.query_params.get(AT_TIME, "")
    return parse_at(version, time), {"at_version": version, "at_time": time}


def _content(record: s.Record) -> dict[str, Any] | None:
    value = json_of(record.json) if record.HasField("json") else None
    return value if isinstance(value, dict) or value is None else {"value": value}


def _record(record: s.Record) -> dict[str, Any]:
    content = _content(record)
    table = None if content is None else fields(content, list(record.masked))
    inner = [path for path in record.masked if content is None or path not in content]
    return {
        "name": record.name, "table": table, "unreadable": record.unreadable, "json": whole(record.json),
        "masked": inner,
    }  # fmt: skip


def _listed(records: Any) -> Table:
    """The key, the id and the first fields of each record."""
    contents = [_content(one) or {} for one in records]
    names = list(dict.fromkeys(name for one in contents for name in one if name != "type"))
    columns = names[:COLUMNS]
    with_ids = any(one.name.id for one in records)
    rows = []
    for one, content in zip(records, contents, strict=True):
        hidden = set(one.masked)
        cells = [field_of(content, name, name in hidden) for name in columns]
        rows.append([name_cell(one.name.key), *([name_cell(one.name.id)] if with_ids else []), *cells])
    heads = ["key", *(["id"] if with_ids else []), *(name_cell(name).text for name in columns)]
    return fitted(Table(heads, rows, len(names) - len(columns)))


def _steps(explained: Any) -> list[dict[str, Any]]:
    """The history, the newest first: each step with what it changed."""
    made = []
    steps = list(explained.steps)
    for step, earlier in zip(steps, [*steps[1:], None], strict=True):
        content = _content(step.record)
        before = None if earlier is None else _content(earlier.record)
        made.append({
            "header": step.header if step.HasField("header") else None,
            "since_ms": step.from_watermark_ms if step.HasField("from_watermark_ms") else None,
            "gone": content is None,
            "changed": fitted(differences(before, content, masked=list(step.record.masked)), len(steps)),
        })  # fmt: skip
    return made
