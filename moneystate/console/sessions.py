"""Who looks at the console: the bearer token of a browser, kept in a cookie that scripts cannot read.

A page that writes also needs a token of its own form, which other sites cannot know.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request

from moneystate.serving.callers import ADMIN, READ, READ_PERSONAL, scopes_of
from moneystate.serving.tokens import BadToken, TokenCheck

COOKIE: Final = "moneystate_token"
CSRF: Final = "csrf"
MOST_BODY: Final = 256 * 1024  # a character of a value can take nine bytes in a form
EVERYTHING: Final = frozenset({READ, READ_PERSONAL, ADMIN})


class NeedsLogin(Exception):
    """The message says why."""


class NotAllowed(Exception):
    """`scope`: the one that is missing; or the request was made by another site."""


@dataclass(frozen=True)
class Viewer:
    """`token`: passed on to query servers; empty: none."""

    token: str
    subject: str
    scopes: frozenset[str]

    def needs(self, scope: str) -> None:
        """Raises NotAllowed."""
        if scope not in self.scopes:
            raise NotAllowed(
                f"expected a token with the scope {scope}, found {', '.join(sorted(self.scopes)) or 'none'}."
            )


@dataclass(frozen=True)
class Sessions:
    """`tokens`: None: tokens are not checked here, and only passed on."""

    tokens: TokenCheck[frozenset[str]] | None
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def viewer(self, request: Request) -> Viewer:
        """Raises NeedsLogin."""
        token = request.cookies.get(COOKIE, "")
        if self.tokens is None:
            return Viewer(token, "", EVERYTHING)
        if not token:
            raise NeedsLogin("")
        try:
            granted = self.tokens.check(token)
        except BadToken as e:
            raise NeedsLogin(f"expected a valid token, but {e}.") from None
        return Viewer(token, granted.subject, granted.rights)

    def csrf(self, viewer: Viewer) -> str:
        return hmac.new(self.secret, viewer.token.encode(), hashlib.sha256).hexdigest()

    async def form(self, request: Request, viewer: Viewer | None) -> Mapping[str, str]:
        """The fields of a form that was sent. `viewer`: whose form it must be; None: before the login. Raises
        NotAllowed."""
        given = await fields_in(request)
        if viewer is not None and not hmac.compare_digest(given.get(CSRF, ""), self.csrf(viewer)):
            raise NotAllowed("expected a form of this console, found another one. Load the page again.")
        return given


async def fields_in(request: Request) -> dict[str, str]:
    """Raises NotAllowed for a body that is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise NotAllowed(f"expected a form of at most {MOST_BODY:,} bytes.")
    parsed = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in parsed.items()}


def rights_of(claims: Mapping[str, Any]) -> frozenset[str]:
    return scopes_of(claims)
