"""The pages as one ASGI application."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from moneystate.console.causes import Inquiry
from moneystate.console.compared_states import NamedSavepoint
from moneystate.console.comparisons import Comparisons
from moneystate.console.decoding import ReadsRegistered, codecs_of
from moneystate.console.deployments import ShownCheckpoint
from moneystate.console.faces import Face, faces_of
from moneystate.console.live import Live
from moneystate.console.oidc_provider import OidcProvider
from moneystate.console.rendering import environment
from moneystate.console.servers import Asked, Servers
from moneystate.console.sessions import COOKIE, NeedsLogin, NotAllowed, Sessions, Viewer
from moneystate.console.topics import Topics
from moneystate.console.topology import Wiring, wirings_of
from moneystate.errors import MoneystateError
from moneystate.log import get_log
from moneystate.records.codec import Codec
from moneystate.serving.callers import READ
from moneystate.serving.rates import Rates

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
AFTER: Final = "moneystate_after"  # where a browser goes after its login
HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d+)?")
OTHER_SITES: Final = (b"cross-site", b"same-site")  # how browsers mark what pages of other sites ask for
FAILED: Final = "The console could not make this page. Its log has the cause."
STATIC: Final = Path(__file__).parent / "static"
ERRORS: Final = {
    "NOT_FOUND": HTTPStatus.NOT_FOUND,
    "OUT_OF_RANGE": HTTPStatus.NOT_FOUND,
    "INVALID_ARGUMENT": HTTPStatus.BAD_REQUEST,
    "PERMISSION_DENIED": HTTPStatus.FORBIDDEN,
    "RESOURCE_EXHAUSTED": HTTPStatus.TOO_MANY_REQUESTS,
    "UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
}
Page = Callable[["Site", Request, Viewer], Awaitable[Response]]
_log = get_log(__name__)


class Missing(Exception):
    """The page does not exist; the message says what was looked for."""


class TooMany(Exception):
    """A caller asks for more than it may."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"expected fewer requests. Load the page again in {wait_s} s.")
        self.wait_s = wait_s


@dataclass
class Site:
    """Holds what pages work with. `services`: references by the names of services; `hosts`: names under which browsers
    may ask."""

    servers: Servers
    live: Live
    topics: Topics
    sessions: Sessions
    services: Mapping[str, str]
    allow_writes: bool
    hosts: frozenset[str]
    is_secure: bool
    savepoints: Sequence[NamedSavepoint] = ()
    checkpoints: Sequence[ShownCheckpoint] = ()
    limits: Rates = field(default_factory=lambda: Rates(0.0))
    oidc: OidcProvider | None = None  # None: tokens are given by hand
    grafana: str = ""  # URL of the dashboard; empty: there is none
    comparisons: Comparisons = field(default_factory=Comparisons)
    templates: Environment = field(default_factory=environment)
    registry_url: str = ""
    registered: ReadsRegistered | None = None
    inquiries: dict[str, Inquiry] = field(default_factory=dict)
    codecs: dict[bytes, Codec] | None = None
    wired: list[Wiring] | None = None

    def render(
        self, request: Request, viewer: Viewer | None, template: str, status: int = 200, **values: Any
    ) -> Response:
        return HTMLResponse(self.text(request, viewer, template, **values), status)

    def text(self, request: Request, viewer: Viewer | None, template: str, **values: Any) -> str:
        shared = {
            "path": request.url.path, "viewer": viewer, "writes": self.allow_writes,
            "has_login": self.sessions.tokens is not None,
            "csrf": "" if viewer is None else self.sessions.csrf(viewer),
        }  # fmt: skip
        return self.templates.get_template(template).render(**shared, **values)

    def admitted(self, request: Request) -> Viewer:
        """Returns who looks, whose request is counted. Raises NeedsLogin and TooMany."""
        try:
            viewer = self.sessions.viewer(request)
        except NeedsLogin:
            self.limit(host_of(request))
            raise
        is_checked = self.sessions.tokens is not None  # else a browser could make up another caller for each request
        self.limit(viewer.token if is_checked else host_of(request))
        return viewer

    def limit(self, caller: str) -> None:
        """Counts a request of a caller. Raises TooMany."""
        wait_s = self.limits.take(caller, None, 1, time.monotonic())
        if wait_s:
            raise TooMany(math.ceil(wait_s))

    async def known_codecs(self) -> dict[bytes, Codec]:
        if self.codecs is None:
            self.codecs = await asyncio.to_thread(codecs_of, list(self.services.values()))
        return self.codecs

    async def wirings(self) -> list[Wiring]:
        """Returns the wirings of the services that this process can import."""
        if self.wired is None:
            self.wired = await asyncio.to_thread(wirings_of, list(self.services.values()))
        return self.wired

    async def inquiry(self, service: str) -> Inquiry:
        """Raises Missing for a service that this process does not know."""
        if service not in self.services:
            raise Missing(f"The console does not know the service {service}. Name it with --show-service.")
        if service not in self.inquiries:
            made = partial(Inquiry, self.topics, self.services[service], self.registry_url)
            self.inquiries[service] = await asyncio.to_thread(made)
        return self.inquiries[service]

    def faces(self, service: str) -> Sequence[Face]:
        known = faces_of(self.services[service]) if service in self.services else ()
        return [face for face in known if face.service in ("", service)]


def application(site: Site, routes: list[tuple[str, str, Page]]) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(site.live.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            await site.live.endpoints.close()
            if site.oidc is not None:
                await site.oidc.close()
            site.servers.close()

    made = [Route(path, _answering(site, page), methods=[method]) for method, path, page in routes]
    app = Starlette(
        routes=[*made, Mount("/static", StaticFiles(directory=STATIC), name="static")],
        middleware=[Middleware(Hardened, site=site), Middleware(GZipMiddleware, minimum_size=1_000)],
        exception_handlers={404: _no_page(site)},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # it would lead to the host that the request names
    return app


def _answering(site: Site, page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        viewer: Viewer | None = None
        try:
            viewer = site.admitted(request)
            viewer.needs(READ)
            return await page(site, request, viewer)
        except NeedsLogin as e:
            return _to_login(site, request, bool(str(e)))
        except TooMany as e:
            return too_many(site, request, viewer, e)
        except NotAllowed as e:
            return _failed(site, request, viewer, HTTPStatus.FORBIDDEN, str(e))
        except Missing as e:
            return _failed(site, request, viewer, HTTPStatus.NOT_FOUND, str(e))
        except Asked as e:
            if e.code == "UNAUTHENTICATED":
                return _to_login(site, request, COOKIE in request.cookies)
            return _failed(site, request, viewer, ERRORS.get(e.code, HTTPStatus.BAD_GATEWAY), e.message)
        except MoneystateError as e:
            return _failed(site, request, viewer, HTTPStatus.SERVICE_UNAVAILABLE, str(e))
        except Exception:
            _log.error("a page failed", exc_info=True)
            return _failed(site, request, viewer, HTTPStatus.INTERNAL_SERVER_ERROR, FAILED)

    return answer


def _to_login(site: Site, request: Request, is_refused: bool) -> Response:
    """`is_refused`: the browser had a token, which grants nothing."""
    query = f"?{request.url.query}" if request.url.query else ""
    wanted = request.url.path + query if request.method == "GET" else "/"
    response = RedirectResponse("/login?refused=yes" if is_refused else "/login", HTTPStatus.SEE_OTHER)
    response.set_cookie(AFTER, quote(wanted), max_age=600, httponly=True, samesite="strict", secure=site.is_secure)
    return response


def _failed(site: Site, request: Request, viewer: Viewer | None, status: HTTPStatus, message: str) -> Response:
    return site.render(request, viewer, "error.html", status, title=status.phrase, message=message)


def too_many(site: Site, request: Request, viewer: Viewer | None, e: TooMany) -> Response:
    response = _failed(site, request, viewer, HTTPStatus.TOO_MANY_REQUESTS, str(e))
    response.headers["Retry-After"] = str(e.wait_s)
    return response


def host_of(request: Request) -> str:
    """The address of a browser."""
    return "" if request.client is None else request.client.host


def _no_page(site: Site) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, _: Exception) -> Response:
        return _failed(site, request, None, HTTPStatus.NOT_FOUND, f"There is no page {request.url.path}.")

    return answer


class Hardened:
    """Refuses names of hosts that are not the console's own, as a site that rebinds its name would use, and requests
    that pages of other sites make. Adds the headers that limit what a page can do."""

    def __init__(self, app: Any, site: Site) -> None:
        self.app = app
        self.site = site

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = dict(scope["headers"])
        refusal = self._refusal(scope["method"], given)
        if refusal is not None:
            await refusal(scope, receive, send)
            return

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                more = (
                    HEADERS if not scope["path"].startswith("/static/") else {**HEADERS, "Cache-Control": "max-age=600"}
                )
                added = [(name.lower().encode(), value.encode()) for name, value in more.items()]
                names = {name for name, _ in added}
                message["headers"] = [*(one for one in message["headers"] if one[0] not in names), *added]
            await send(message)

        await self.app(scope, receive, sending)

    def _refusal(self, method: str, headers: Mapping[bytes, bytes]) -> Response | None:
        host = HOST.fullmatch(headers.get(b"host", b"").decode("latin-1").lower())
        if self.site.hosts and (host is None or host["name"].strip("[]") not in self.site.hosts):
            return Response("expected the name of this console as the host", HTTPStatus.MISDIRECTED_REQUEST)
        is_link = method == "GET" and headers.get(b"sec-fetch-dest") == b"document"
        if headers.get(b"sec-fetch-site") in OTHER_SITES and not is_link:
            return Response("expected a request of this console's own pages", HTTPStatus.FORBIDDEN)
        return None
