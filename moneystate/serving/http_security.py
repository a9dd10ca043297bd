"""TLS and tokens of servers that speak HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from moneystate.serving import addresses
from moneystate.serving.https import Certificates
from moneystate.serving.tls import SecurityFlags
from moneystate.serving.tokens import BadToken, TokenCheck, bearer

Rights = TypeVar("Rights")
Scope = Mapping[str, Any]  # of ASGI
AUTHORIZATION: Final = b"authorization"


@dataclass(frozen=True)
class HttpSecurity(SecurityFlags):
    def tokens(self, rights_of: Callable[[Mapping[str, Any]], Rights]) -> TokenCheck[Rights] | None:
        """None: callers need no token. `rights_of`: reads what claims grant. Raises ConfigError."""
        if not self.token_key:
            return None
        return TokenCheck(self.token_key, self.token_audience, self.token_issuer, rights_of)

    def certificates(self) -> Certificates | None:
        """Raises ConfigError."""
        files = self.tls_files()
        return None if files is None else Certificates(files)

    def described(self, address: str, without_tokens: str) -> str:
        """Describes the security for the log. `without_tokens`: what callers may do if they need none."""
        transport = "mutual TLS" if self.client_ca else "TLS" if self.tls_cert else "no TLS"
        who = "tokens" if self.token_key else f"no tokens, callers may {without_tokens}"
        local = ", this machine only" if addresses.is_loopback(address) else ""
        return f"{transport}, {who}{local}"


def machine_of(scope: Scope) -> str:
    """The caller's address, without its port."""
    client = scope.get("client")
    return client[0] if client else ""


def token_in(scope: Scope) -> str:
    """The bearer token of a request; empty: it has none."""
    given = next((value for name, value in scope["headers"] if name == AUTHORIZATION), b"")
    return bearer(given.decode("latin-1"))


class Unauthorized(Exception):
    """`code`: NO_TOKEN or BAD_TOKEN."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def granted(tokens: TokenCheck[Rights] | None, scope: Scope, everything: Rights) -> tuple[str, str, Rights]:
    """Subject, machine and rights of a caller. `tokens`: None: callers need no token, have no subject, and may do
    `everything`. Raises Unauthorized."""
    machine = machine_of(scope)
    if tokens is None:
        return "", machine, everything
    token = token_in(scope)
    if not token:
        raise Unauthorized("NO_TOKEN", "expected the header `Authorization: Bearer TOKEN`.")
    try:
        its = tokens.check(token)
    except BadToken as e:
        raise Unauthorized("BAD_TOKEN", f"expected a valid token, but {e}.") from None
    return its.subject, machine, its.rights
