"""Declared queries as forms, and their results."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from moneystate.console import forms
from moneystate.console.asking import parse_at
from moneystate.console.servers import Server
from moneystate.console.sessions import Viewer
from moneystate.console.shown import json_of, table, whole
from moneystate.console.site import Missing, Site
from moneystate.state.v1 import state_pb2 as s

AT_VERSION, AT_TIME, ASKED = "at-version", "at-time", "asked"  # names that no argument has, as they have a hyphen


async def queries(site: Site, request: Request, viewer: Viewer) -> Response:
    servers = await asyncio.to_thread(site.servers.all, viewer.token)
    return site.render(request, viewer, "queries.html", servers=servers)


async def query(site: Site, request: Request, viewer: Viewer) -> Response:
    server = await served(site, request, viewer)
    name = request.path_params["query"]
    declared = server.query(name)
    if declared is None:
        raise Missing(f"The service {server.service} declares no query {name}.")
    fields = forms.fields_of(declared.arguments.avro)
    given = {field.name: request.query_params.get(field.name, field.default) for field in fields}
    values: dict[str, Any] = {
        "server": server, "declared": declared, "fields": fields, "given": given, "problems": {},
        "at_version": request.query_params.get(AT_VERSION, ""), "at_time": request.query_params.get(AT_TIME, ""),
    }  # fmt: skip
    if not (ASKED in request.query_params or not fields):
        return site.render(request, viewer, "query.html", **values, answer=None)
    try:
        arguments = forms.arguments_of(fields, given)
    except forms.Wrong as e:
        return site.render(request, viewer, "query.html", 400, **{**values, "problems": e.problems}, answer=None)
    call = s.CallRequest(query=name, arguments=arguments, at=parse_at(values["at_version"], values["at_time"]))
    answer = await asyncio.to_thread(site.servers.call, server.address, "State.Call", call, viewer.token)
    result = json_of(answer.result.json)
    return site.render(
        request, viewer, "query.html", **values, answer=answer, result=table(result),
        json=whole(answer.result.json), command=forms.command_of(server.service, name, fields, given, server.address),
        python=forms.python_of(name, arguments, server.address),
    )  # fmt: skip


async def served(site: Site, request: Request, viewer: Viewer) -> Server:
    """The server of the service in the path. Raises Missing."""
    service = request.path_params["service"]
    server = await asyncio.to_thread(site.servers.of_service, service, viewer.token)
    if server is None:
        raise Missing(f"No query server of {service} answers. Give its address with --state HOST:PORT.")
    return server
