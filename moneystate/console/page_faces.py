"""Pages that services bring themselves (`moneystate.console.faces`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from moneystate.console.decoding import text_of
from moneystate.console.faces import Block, Face, Graph, NotThere, Record, Rows
from moneystate.console.page_queries import served
from moneystate.console.rendering import shown_time
from moneystate.console.servers import Asked, Server
from moneystate.console.sessions import Viewer
from moneystate.console.shown import MOST_TEXT, Cell, Table, cell, fitted, json_of, table
from moneystate.console.site import Missing, Site
from moneystate.console.topics import Topics
from moneystate.errors import SetupError
from moneystate.log import get_log
from moneystate.records import exact_json
from moneystate.serving.callers import READ_PERSONAL
from moneystate.state.v1 import state_pb2 as s

_log = get_log(__name__)


async def face(site: Site, request: Request, viewer: Viewer) -> Response:
    server = await served(site, request, viewer)
    chosen = next((one for one in site.faces(server.service) if one.name == request.path_params["face"]), None)
    if chosen is None:
        raise Missing(f"The service {server.service} has no page {request.path_params['face']}.")
    given = {choice.name: request.query_params.get(choice.name, choice.default) for choice in chosen.choices}
    blocks: Sequence[Block] = ()
    problem = ""
    if all(given.get(name) for name in chosen.needs):
        try:
            if chosen.look is not None:
                viewer.needs(READ_PERSONAL)
                _log.info(f"topics of {server.service} were read", subject=viewer.subject, page=chosen.name)
            blocks = await asyncio.to_thread(_asked, site, viewer, server, chosen, given)
        except NotThere as e:
            problem = str(e)
    return site.render(
        request, viewer, "face.html", server=server, face=chosen, given=given, problem=problem,
        blocks=[(type(block).__name__, block, _table(block)) for block in blocks],
    )  # fmt: skip


def _asked(site: Site, viewer: Viewer, server: Server, face: Face, given: dict[str, str]) -> Sequence[Block]:
    def ask(query: str, **arguments: Any) -> Any:
        call = s.CallRequest(query=query, arguments=json.dumps(arguments))
        try:
            answer = site.servers.call(server.address, "State.Call", call, viewer.token)
        except Asked as e:
            if e.code in ("NOT_FOUND", "INVALID_ARGUMENT"):
                raise NotThere(e.message) from None
            raise
        return json_of(answer.result.json)

    if face.look is not None:
        return face.look(partial(records_of, site.topics), given)
    return face.show(ask, given) if face.show is not None else ()


def records_of(topics: Topics, topic: str, key: str = "", most: int = 100) -> Sequence[Record]:
    """Raises NotThere if there is no such topic."""
    wanted = key.encode()
    try:
        letters = topics.newest(topic, lambda one: one if not key or one.key == wanted else None, most)
    except SetupError as e:
        raise NotThere(e.message) from None
    return [Record(text_of(one.key), _value(one.value), one.timestamp_ms) for one in reversed(letters)]


def _value(value: bytes | None) -> Any:
    try:
        return None if value is None else exact_json.loads(value.decode())
    except ValueError:
        return None


def _table(block: Block) -> Table | None:
    """A graph as a table, too: for those who cannot see it, and without scripts."""
    if isinstance(block, Rows):
        return table(list(block.rows), MOST_TEXT)
    if isinstance(block, Graph):
        heads = ["time", *(line.label for line in block.lines)]
        shown = [
            [Cell(shown_time(time)), *(cell(line.values[n]) for line in block.lines)]
            for n, time in list(enumerate(block.times))[:200]
        ]
        return fitted(Table(heads, shown, more_rows=max(0, len(block.times) - 200)))
    return None
