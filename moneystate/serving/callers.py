"""Authenticates callers and checks their scopes: bearer tokens and client certificates.

A token is a JWT in the metadata `authorization: Bearer TOKEN` (`moneystate.serving.tokens`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moneystate.rpc.context import Context
from moneystate.serving.failures import Failure
from moneystate.serving.tokens import BadToken, TokenCheck, bearer

READ: Final = "state.read"
READ_PERSONAL: Final = "state.read.personal"
ADMIN: Final = "state.admin"
SCOPES: Final = frozenset({READ, READ_PERSONAL, ADMIN})


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    subject: str  # of the token, else of the client certificate, else empty
    peer: str
    scopes: frozenset[str]
    expires_s: float = float("inf")  # when the token expires

    @property
    def identity(self) -> str:
        """The identity that limits count for: the subject, or the caller's machine if it has none."""
        return self.subject or machine(self.peer)

    @property
    def personal(self) -> bool:
        return READ_PERSONAL in self.scopes

    def require(self, scope: str) -> None:
        """Raises Failure SCOPE_MISSING."""
        if scope not in self.scopes:
            raise Failure("SCOPE_MISSING", f"expected a token with the scope {scope}.", metadata={"scope": scope})


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """The scopes that a token's claims grant."""
    scope = claims.get("scope", "")
    return SCOPES.intersection(scope.split() if isinstance(scope, str) else [])


class Callers:
    """Identifies callers."""

    def __init__(self, tokens: TokenCheck[frozenset[str]] | None, scopes: frozenset[str], certificates: bool) -> None:
        self.tokens = tokens  # None: callers need no token
        self.scopes = scopes  # of callers that need no token
        self.certificates = certificates  # callers present certificates, which name those whose token has no subject

    def caller(self, context: Context) -> Caller:
        """Raises Failure NO_TOKEN or BAD_TOKEN."""
        peer = context.peer()
        if self.tokens is None:
            return Caller(self._certified(context), peer, self.scopes)
        try:
            granted = self.tokens.check(_bearer(context))
        except BadToken as e:
            raise Failure("BAD_TOKEN", f"expected a valid token, but {e}.") from None
        return Caller(granted.subject or self._certified(context), peer, granted.rights, granted.expires_s)

    def _certified(self, context: Context) -> str:
        return _certificate_name(context) if self.certificates else ""


def machine(peer: str) -> str:
    """The address of a gRPC peer (ipv4:127.0.0.1:1234), without its port."""
    return peer.rpartition(":")[0] or peer


def _bearer(context: Context) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization":
            token = bearer(value if isinstance(value, str) else value.decode("latin-1"))
            if token:
                return token
    raise Failure("NO_TOKEN", "expected the metadata `authorization: Bearer TOKEN`.")


def _certificate_name(context: Context) -> str:
    names = context.auth_context().get("x509_common_name", ())
    return next((name.decode("utf-8", "replace") for name in names), "")
