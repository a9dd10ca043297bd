"""The page of all services, that of one, and their live parts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moneystate.console.alerts import Alert
from moneystate.console.faces import Graph, Line
from moneystate.console.figures import PHASES, Figures, why_held
from moneystate.console.jobs import Job
from moneystate.console.live import Sample
from moneystate.console.servers import Asked, Server
from moneystate.console.sessions import NeedsLogin, Viewer
from moneystate.console.site import Missing, Site
from moneystate.console.topology import Picture, picture_of, resolved, seen
from moneystate.state.v1 import status_pb2

STREAM = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}


@dataclass(frozen=True)
class Shown:
    """A service, as far as it is known: by the broker, by a query server, or both."""

    name: str
    job: Job | None
    server: Server | None
    status: status_pb2.GetStatusResponse | None
    problem: str = ""
    figures: Figures | None = None  # without a metrics endpoint
    alerts: Sequence[Alert] = ()

    @property
    def why_held(self) -> str:
        if self.figures is None:
            return ""
        lags = () if self.job is None else self.job.lags
        return why_held(self.figures, {(one.topic, one.partition): one.records for one in lags})


async def shown_services(site: Site, viewer: Viewer) -> list[Shown]:
    jobs = {job.service: job for job in await site.live.now()}
    servers = {server.service: server for server in await asyncio.to_thread(site.servers.all, viewer.token)}
    names = sorted({*jobs, *servers})
    shown = [_shown(site, viewer, name, jobs.get(name), servers.get(name)) for name in names]
    return list(await asyncio.gather(*shown))


async def _shown(site: Site, viewer: Viewer, name: str, job: Job | None, server: Server | None) -> Shown:
    figures = site.live.endpoints.figures.get(name)
    alerts = [one for one in site.live.endpoints.alerts if one.service == name]
    if server is None:
        return Shown(name, job, None, None, "", figures, alerts)
    try:
        status = await asyncio.to_thread(site.servers.status, server, viewer.token)
        return Shown(name, job, server, status, "", figures, alerts)
    except Asked as e:
        return Shown(name, job, server, None, str(e), figures, alerts)


async def services(site: Site, request: Request, viewer: Viewer) -> Response:
    rows = await shown_services(site, viewer)
    silent = [
        address for address in site.servers.clients if address not in {one.server.address for one in rows if one.server}
    ]
    return site.render(
        request, viewer, "services.html", rows=rows, problem=site.live.problem, silent=silent,
        endpoints=site.live.endpoints,
    )  # fmt: skip


async def live_services(site: Site, request: Request, viewer: Viewer) -> Response:
    async def rows() -> str:
        shown = await shown_services(site, viewer)
        text = site.text(request, viewer, "services_rows.html", rows=shown, endpoints=site.live.endpoints)
        return event("services", text)

    async def parts() -> AsyncIterator[str]:
        async for _ in site.live.looks():
            yield await site.live.shared(("services", viewer.token), rows)

    return StreamingResponse(_while_allowed(site, request, parts()), headers=STREAM)


async def service(site: Site, request: Request, viewer: Viewer) -> Response:
    shown = await _one(site, viewer, request.path_params["service"])
    samples = list(site.live.history.get(shown.name, ()))
    return site.render(
        request, viewer, "service.html", one=shown, faces=site.faces(shown.name), graphs=_graphs(samples),
        topics=_topics(shown), grafana=site.grafana, picture=await _picture(site, shown.name),
        has_rules=any(its.service == shown.name for its in site.checkpoints),
    )  # fmt: skip


async def live_service(site: Site, request: Request, viewer: Viewer) -> Response:
    name = request.path_params["service"]

    async def now() -> str:
        shown = await _one(site, viewer, name)
        picture = await _picture(site, name)
        return event("service", site.text(request, viewer, "service_now.html", one=shown, picture=picture))

    async def parts() -> AsyncIterator[str]:
        async for _ in site.live.looks():
            with suppress(Missing):
                yield await site.live.shared(("service", name, viewer.token), now)

    return StreamingResponse(_while_allowed(site, request, parts()), headers=STREAM)


async def _one(site: Site, viewer: Viewer, name: str) -> Shown:
    """Raises Missing."""
    for one in await shown_services(site, viewer):
        if one.name == name:
            return one
    raise Missing(f"There is no service {name}: it has neither a topic of commits nor a query server here.")


async def _picture(site: Site, name: str) -> Picture | None:
    """None: neither declarations nor a job say what the service reads and writes."""
    there, jobs = site.live.source.there, site.live.jobs
    wirings = [resolved(one, there) for one in await site.wirings()]
    declared, names = {one.service for one in wirings}, [job.service for job in jobs]
    wirings += [
        seen(job.service, [lag.topic for lag in job.lags], there, names) for job in jobs if job.service not in declared
    ]
    mine = next((one for one in wirings if one.service == name), None)
    if mine is None:
        return None
    site.live.rates.draw([one.topic for one in (*mine.reads, *mine.writes)])
    return picture_of(mine, wirings, site.live.rates.of_topics)


def _topics(shown: Shown) -> list[str]:
    """The inputs that the job has read, and the service's own topics."""
    return [] if shown.job is None else sorted({*(lag.topic for lag in shown.job.lags), *shown.job.topics})


def _graphs(samples: Sequence[Sample]) -> list[Graph]:
    times = [one.time_ms for one in samples]
    rates: list[float | None] = [None]
    for before, after in itertools.pairwise(samples):
        seconds = (after.time_ms - before.time_ms) / 1_000
        rates.append((after.batch - before.batch) / seconds if seconds > 0 and after.batch >= before.batch else None)
    graphs = [
        Graph("Lag", times, [Line("records not committed", [float(one.lag) for one in samples])]),
        Graph("Batches", times, [Line("batches a second", rates[: len(times)])]),
        Graph("Dead letters of the last hour", times, [Line("dead letters", [float(one.letters) for one in samples])]),
    ]
    return graphs + (_graphs_of_metrics(times, samples) if any(one.figures for one in samples) else [])


def _graphs_of_metrics(times: Sequence[int], samples: Sequence[Sample]) -> list[Graph]:
    def values(of_figures: Callable[[Figures], float | None]) -> list[float | None]:
        return [None if one.figures is None else of_figures(one.figures) for one in samples]

    rates = [
        Line("records read", values(lambda its: its.records_a_second)),
        Line("outputs written", values(lambda its: its.outputs_a_second)),
    ]
    phases = [Line(name, values(lambda its, name=name: its.phases_s.get(name))) for name in PHASES]  # type: ignore[misc]
    return [
        Graph("Throughput", times, rates, unit="/s"),
        Graph("Watermark", times, [Line("behind now", values(lambda its: its.watermark_lag_s))], unit="s"),
        Graph("Time of a batch", times, [Line("whole", values(lambda its: its.batch_s))], unit="s"),
        Graph("Phases of a batch", times, phases, unit="s"),
    ]


def event(name: str, html: str) -> str:
    """One event of a stream of server-sent events."""
    return f"event: {name}\n" + "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"


async def _while_allowed(site: Site, request: Request, parts: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yields the parts until the browser leaves, or its token is no longer valid."""
    async for part in parts:
        try:
            site.sessions.viewer(request)
        except NeedsLogin:
            return
        if await request.is_disconnected():
            return
        yield part
