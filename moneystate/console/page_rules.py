"""The rules of a job, their history, and what its next start would change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from moneystate.console.deployments import ShownCheckpoint, planned, rules_of
from moneystate.console.sessions import Viewer
from moneystate.console.shown import MOST_IN_ROW, Cell, Table, cell, fields
from moneystate.console.site import Missing, Site
from moneystate.serving.callers import READ


async def rules(site: Site, request: Request, viewer: Viewer) -> Response:
    viewer.needs(READ)
    service = request.path_params["service"]
    mine = _checkpoint(site, service)
    its = await asyncio.to_thread(rules_of, mine.address)
    changes = None
    if "plan" in request.query_params:
        changes = await asyncio.to_thread(planned, mine.plan, service)
    return site.render(
        request, viewer, "rules.html", service=service, checkpoint=mine, in_force=fields(its.in_force),
        history=[(one.batch, _changes(one.changes)) for one in its.history],
        plan=None if changes is None else _plan(changes), refused=any(one["refused"] for one in changes or []),
    )  # fmt: skip


def _checkpoint(site: Site, service: str) -> ShownCheckpoint:
    """Raises Missing."""
    for one in site.checkpoints:
        if one.service == service:
            return one
    raise Missing(f"The console knows no checkpoint of {service}. Give its folder with --show-checkpoint.")


def _changes(changes: Mapping[str, tuple[Any, Any]]) -> Table:
    rows = [(Cell(name), *(cell(its, most=MOST_IN_ROW) for its in pair)) for name, pair in changes.items()]
    return Table(("rule", "before", "after"), rows)


def _plan(changes: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            Cell(f"{one['part']} {one['name']}"), cell(one["before"], most=MOST_IN_ROW),
            cell(one["after"], most=MOST_IN_ROW), Cell(str(one["effect"])), Cell("refused" if one["refused"] else ""),
        )
        for one in changes
    ]  # fmt: skip
    return Table(("what", "before", "after", "effect", ""), rows)
