"""The page where a browser gives its bearer token."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from moneystate.console.sessions import COOKIE, NotAllowed, fields_in
from moneystate.console.site import AFTER, Site, TooMany, host_of, too_many
from moneystate.serving.tokens import BadToken

DAY_S = 86_400


def routes(site: Site) -> list[Route]:
    """They need no viewer, so they are not among the pages."""

    async def show(request: Request) -> Response:
        why = "The token has expired, or grants nothing here." if "refused" in request.query_params else ""
        return site.render(request, None, "login.html", why=why)

    async def take(request: Request) -> Response:
        if not _is_own(request):
            return site.render(request, None, "login.html", HTTPStatus.FORBIDDEN, why="Another site sent this form.")
        try:
            site.limit(host_of(request))
            token = (await fields_in(request)).get("token", "").strip().removeprefix("Bearer ").strip()
            if site.sessions.tokens is not None:
                site.sessions.tokens.check(token)
        except TooMany as e:
            return too_many(site, request, None, e)
        except (BadToken, NotAllowed) as e:
            why = f"Expected a valid token, but {e}."
            return site.render(request, None, "login.html", HTTPStatus.FORBIDDEN, why=why)
        response = RedirectResponse(after_login(request), HTTPStatus.SEE_OTHER)
        options: dict[str, Any] = {"httponly": True, "samesite": "strict", "secure": site.is_secure}
        response.set_cookie(COOKIE, token, max_age=DAY_S, **options)
        response.delete_cookie(AFTER)
        return response

    async def leave(request: Request) -> Response:
        response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        if _is_own(request):
            response.delete_cookie(COOKIE)
        return response

    return [
        Route("/login", show, methods=["GET"]),
        Route("/login", take, methods=["POST"]),
        Route("/logout", leave, methods=["POST"]),
    ]


def _is_own(request: Request) -> bool:
    """Whether a page of this console sent a form. All browsers of the last years say where one comes from."""
    return request.headers.get("sec-fetch-site", "same-origin") == "same-origin"


def after_login(request: Request) -> str:
    """Only a path of this console."""
    path = unquote(request.cookies.get(AFTER, "/"))
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"
