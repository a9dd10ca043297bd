"""The pages where a browser gives its bearer token, or gets one from an OpenID provider (`moneystate.console.oidc`).

The provider sends the browser back from another site. A cookie that is for this site alone does not come with that
request, nor with those that it is redirected to. So the attempt has a cookie of another kind, and the last answer is a
page that leads on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from moneystate.console.oidc import CALLBACK, Attempt, Refused
from moneystate.console.oidc_provider import OidcProvider
from moneystate.console.sessions import COOKIE, NotAllowed, fields_in
from moneystate.console.site import AFTER, Site, TooMany, host_of, too_many
from moneystate.serving.tokens import BadToken

DAY_S: Final = 86_400
ATTEMPT: Final = "moneystate_login"
ATTEMPT_S: Final = 600
ATTEMPTS: Final = "/login"  # the path of requests that have its cookie
# Browsers leave out tabs and line ends, and take a backslash for a slash: two slashes would begin the name of a host.
OWN_PATH: Final = re.compile(r"/(?![/\\])[^\x00-\x1f\x7f]*")
Answer = Callable[[Request], Awaitable[Response]]


def routes(site: Site) -> list[Route]:
    """They need no viewer, so they are not among the pages."""

    async def show(request: Request) -> Response:
        refused = "The token has expired, or grants nothing here." if "refused" in request.query_params else ""
        leave_url = await _leave_url(site) if "left" in request.query_params else ""
        return _page(site, request, refused, leave_url=leave_url)

    async def take(request: Request) -> Response:
        if not _is_own(request):
            return _page(site, request, "Another site sent this form.", HTTPStatus.FORBIDDEN)
        try:
            site.limit(host_of(request))
            token = (await fields_in(request)).get("token", "").strip().removeprefix("Bearer ").strip()
            response = RedirectResponse(after_login(request), HTTPStatus.SEE_OTHER)
            _log_in(site, response, token)
        except TooMany as e:
            return too_many(site, request, None, e)
        except (BadToken, NotAllowed) as e:
            return _page(site, request, f"Expected a valid token, but {e}.", HTTPStatus.FORBIDDEN)
        response.delete_cookie(AFTER)
        return response

    async def leave(request: Request) -> Response:
        response = RedirectResponse("/login?left=yes", HTTPStatus.SEE_OTHER)
        if _is_own(request):
            response.delete_cookie(COOKIE)
        return response

    made = [
        Route("/login", show, methods=["GET"]),
        Route("/login", take, methods=["POST"]),
        Route("/logout", leave, methods=["POST"]),
    ]
    return made if site.oidc is None else [*made, *_routes_of_oidc(site, site.oidc)]


def _routes_of_oidc(site: Site, oidc: OidcProvider) -> list[Route]:
    async def begin(request: Request) -> Response:
        attempt, url = await oidc.begin(after_login(request))
        response = RedirectResponse(url, HTTPStatus.SEE_OTHER)
        response.set_cookie(
            ATTEMPT, quote(attempt.text()), max_age=ATTEMPT_S, path=ATTEMPTS, httponly=True, samesite="lax",
            secure=site.is_secure,
        )  # fmt: skip
        return response

    async def finish(request: Request) -> Response:
        attempt = Attempt.of_text(unquote(request.cookies.get(ATTEMPT, "")))
        token = await oidc.finish(dict(request.query_params), attempt)
        response = site.render(request, None, "login_done.html", after=_own_path(attempt.after))
        try:
            _log_in(site, response, token)
        except BadToken as e:
            raise Refused(f"expected an access token that the console takes, but {e}.") from None
        response.delete_cookie(AFTER)
        response.delete_cookie(ATTEMPT, path=ATTEMPTS)
        return response

    def told(answer: Answer) -> Answer:
        async def safe(request: Request) -> Response:
            try:
                site.limit(host_of(request))
                return await answer(request)
            except TooMany as e:
                return too_many(site, request, None, e)
            except Refused as e:
                return _page(site, request, f"Not logged in: {e}", HTTPStatus.FORBIDDEN)

        return safe

    return [Route("/login/oidc", told(begin), methods=["GET"]), Route(CALLBACK, told(finish), methods=["GET"])]


def _page(site: Site, request: Request, why: str, status: int = HTTPStatus.OK, leave_url: str = "") -> Response:
    issuer = "" if site.oidc is None else site.oidc.client.issuer
    return site.render(request, None, "login.html", status, why=why, issuer=issuer, leave_url=leave_url)


def _log_in(site: Site, response: Response, token: str) -> None:
    """Raises BadToken."""
    life_s = DAY_S
    if site.sessions.tokens is not None:
        expires_s = site.sessions.tokens.check(token).expires_s
        life_s = max(1, min(DAY_S, int(expires_s - time.time())))
    options: dict[str, Any] = {"httponly": True, "samesite": "strict", "secure": site.is_secure}
    response.set_cookie(COOKIE, token, max_age=life_s, **options)


async def _leave_url(site: Site) -> str:
    """Returns where a browser ends its session at the provider; empty: nowhere."""
    try:
        return "" if site.oidc is None else await site.oidc.logout_url()
    except Refused:
        return ""


def _is_own(request: Request) -> bool:
    """Whether a page of this console sent a form. All browsers of the last years say where one comes from."""
    return request.headers.get("sec-fetch-site", "same-origin") == "same-origin"


def after_login(request: Request) -> str:
    """Only a path of this console."""
    return _own_path(unquote(request.cookies.get(AFTER, "/")))


def _own_path(path: str) -> str:
    return path if OWN_PATH.fullmatch(path) else "/"
