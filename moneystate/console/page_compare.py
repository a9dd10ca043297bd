"""Two states of a service beside each other: their fingerprints and the first differences."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from moneystate.console.asking import parse_at
from moneystate.console.compared_states import NamedSavepoint, SavedState, ServedState, State, StoppedState
from moneystate.console.comparison import SIDES, Difference
from moneystate.console.comparisons import Key, Running
from moneystate.console.deployments import ShownCheckpoint
from moneystate.console.servers import Asked, Server
from moneystate.console.sessions import Viewer
from moneystate.console.shown import Table, differences, fitted, json_of
from moneystate.console.site import Missing, Site
from moneystate.log import get_log
from moneystate.serving.callers import READ_PERSONAL
from moneystate.state.v1 import header_pb2

SERVER, SAVEPOINT, CHECKPOINT = "server ", "savepoint ", "checkpoint "
AT, AGAIN = "-at", "again"
_log = get_log(__name__)


@dataclass(frozen=True)
class Places:
    """Holds what can be compared, by texts such as `server HOST:PORT`."""

    servers: dict[str, Server]
    folders: dict[str, NamedSavepoint | ShownCheckpoint]

    def of_service(self, service: str) -> list[str]:
        return [place for place, its in self._all() if its.service == service]

    def services(self) -> list[str]:
        return sorted({its.service for _, its in self._all()})

    def _all(self) -> list[tuple[str, Server | NamedSavepoint | ShownCheckpoint]]:
        return [*self.servers.items(), *self.folders.items()]


@dataclass(frozen=True)
class Chosen:
    """A side as the form has it. `version`: EPOCH/BATCH of a server; empty: the newest one."""

    place: str
    version: str


async def compare(site: Site, request: Request, viewer: Viewer) -> Response:
    given = request.query_params
    places = await _places(site, viewer)
    service = given.get("service", "")
    sides = [Chosen(given.get(side, ""), given.get(side + AT, "")) for side in SIDES]
    again = given.get(AGAIN, "0")
    running = None
    if all(side.place for side in sides):
        running = _running(site, viewer, places, service, sides, again)
    return site.render(
        request, viewer, "compare.html", services=places.services(), service=service,
        choices=places.of_service(service), sides=sides, running=running,
        hides_personal=READ_PERSONAL not in viewer.scopes, here=f"{request.url.path}?{request.url.query}",
        shown=[] if running is None or running.result is None else _shown(running.result.first, sides),
        repeat=str(int(again) + 1) if again.isdecimal() and len(again) < 10 else "1",
    )  # fmt: skip


async def _places(site: Site, viewer: Viewer) -> Places:
    servers = await asyncio.to_thread(site.servers.all, viewer.token)
    savepoints = {SAVEPOINT + one.name: one for one in site.savepoints}
    checkpoints = {CHECKPOINT + one.address: one for one in site.checkpoints}
    return Places({SERVER + one.address: one for one in servers}, {**savepoints, **checkpoints})


def _running(site: Site, viewer: Viewer, places: Places, service: str, sides: Sequence[Chosen], again: str) -> Running:
    for side in sides:
        if side.place not in places.of_service(service):
            raise Missing(f"There is no {side.place} of {service}. Choose one of the list.")
        if side.place in places.folders:
            viewer.needs(READ_PERSONAL)
    positions = [parse_at(side.version, "") for side in sides]
    key: Key = (viewer.token, service, *itertools.chain(*((side.place, side.version) for side in sides)), again)

    def states() -> tuple[State, State]:
        _log.info(f"states of {service} are compared", subject=viewer.subject, places=[side.place for side in sides])
        one, other = (
            _state(site, viewer, places, side, position) for side, position in zip(sides, positions, strict=True)
        )
        return one, other

    return site.comparisons.of(key, _compared(places, service), states)


def _compared(places: Places, service: str) -> Sequence[str]:
    """The values and maps that are compared: those that the service's query server has."""
    for server in places.servers.values():
        if server.service == service:
            return [one.name for one in server.schema.states]
    raise Asked("UNAVAILABLE", f"No query server of {service} answers, so its states are not known.")


def _state(site: Site, viewer: Viewer, places: Places, side: Chosen, position: header_pb2.At | None) -> State:
    if side.place in places.servers:
        return ServedState(site.servers, places.servers[side.place], viewer.token, position)
    its = places.folders[side.place]
    if its.service not in site.services:
        raise Missing(f"The console does not know the service {its.service}. Name it with --show-service.")
    reference = site.services[its.service]
    return SavedState(its.folder, reference) if isinstance(its, NamedSavepoint) else StoppedState(its.export, reference)


def _shown(first: Sequence[Difference], sides: Sequence[Chosen]) -> list[tuple[Difference, Table]]:
    heads = sides[0].place, sides[1].place
    return [(one, fitted(differences(_fields(one.one), _fields(one.other), heads), len(first))) for one in first]


def _fields(text: str | None) -> Mapping[str, object] | None:
    if text is None:
        return None
    value = json_of(text)  # a text: what the server says of a record that it cannot read
    return value if isinstance(value, dict) else {"value": value}
