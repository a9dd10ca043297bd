"""Authenticates callers and checks their scopes: bearer tokens and client certificates.

A token is a JWT in the metadata `authorization: Bearer TOKEN`, signed with the private key that belongs to one of
`--token-key` (`moneystate.serving.token_keys`).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import jwt

from moneystate.errors import ConfigError
from moneystate.rpc.context import Context
from moneystate.serving.failures import Failure
from moneystate.serving.token_keys import FLAG, TokenKey, TokenKeys, read_keys
from moneystate.serving.watched import Watched

READ: Final = "state.read"
READ_PERSONAL: Final = "state.read.personal"
ADMIN: Final = "state.admin"
SCOPES: Final = frozenset({READ, READ_PERSONAL, ADMIN})

CACHED_TOKENS: Final = 10_000  # checking a signature costs about as much as the rest of a point read
MAX_TOKEN_BYTES: Final = 8_192
KEYS_LOOK_S: Final = 1.0  # how often the key file is checked for changes


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


@dataclass(frozen=True, slots=True)
class Granted:
    """The content of a token that has been verified."""

    subject: str
    scopes: frozenset[str]
    expires_s: float


class TokenCheck:
    """Checks tokens. The key file is read again when it changes: tokens of a removed key stop working. Raises
    ConfigError if the file has no usable key."""

    def __init__(self, key_file: str, audience: str, issuer: str) -> None:
        try:
            self.keys: Watched[TokenKeys] = Watched("token keys", [key_file], lambda: read_keys(key_file))
        except OSError as e:
            raise ConfigError(
                f"{FLAG} {key_file}: expected a file of keys, but {e.strerror}.", "check the path."
            ) from None
        self.look_at = 0.0
        self.audience = audience or None
        self.issuer = issuer or None
        self.checked: OrderedDict[str, Granted] = OrderedDict()

    def check(self, token: str) -> Granted:
        """Raises Failure BAD_TOKEN."""
        self._look()
        granted = self.checked.get(token)
        if granted is None:
            granted = self._decode(token)
            self.checked[token] = granted
            if len(self.checked) > CACHED_TOKENS:
                self.checked.popitem(last=False)
        if granted.expires_s <= time.time():
            self.checked.pop(token, None)
            raise _bad_token("it has expired")
        return granted

    def _look(self) -> None:
        now = time.monotonic()
        if now >= self.look_at:
            self.look_at = now + KEYS_LOOK_S
            if self.keys.refresh():
                self.checked.clear()

    def _key(self, token: str) -> TokenKey:
        try:
            kid = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError as e:
            raise _bad_token(f"it is not valid ({e})") from None
        key = self.keys.current.find(kid)
        if key is None:
            raise _bad_token("its `kid` is not that of a key that is known here")
        return key

    def _decode(self, token: str) -> Granted:
        if len(token) > MAX_TOKEN_BYTES:
            raise _bad_token(f"it is longer than {MAX_TOKEN_BYTES} bytes")
        key = self._key(token)
        required = ["exp", *(["aud"] if self.audience else []), *(["iss"] if self.issuer else [])]
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                audience=self.audience,
                issuer=self.issuer,
                options={"require": required, "verify_aud": self.audience is not None},
            )
        except jwt.ExpiredSignatureError:
            raise _bad_token("it has expired") from None
        except jwt.PyJWTError as e:
            raise _bad_token(f"it is not valid ({e})") from None
        scope = claims.get("scope", "")
        scopes = scope.split() if isinstance(scope, str) else []
        return Granted(str(claims.get("sub", "")), SCOPES.intersection(scopes), float(int(claims["exp"])))


class Callers:
    """Identifies callers."""

    def __init__(self, tokens: TokenCheck | None, scopes: frozenset[str], certificates: bool) -> None:
        self.tokens = tokens  # None: callers need no token
        self.scopes = scopes  # of callers that need no token
        self.certificates = certificates  # callers present certificates, which name those whose token has no subject

    def caller(self, context: Context) -> Caller:
        """Raises Failure NO_TOKEN or BAD_TOKEN."""
        peer = context.peer()
        if self.tokens is None:
            return Caller(self._certified(context), peer, self.scopes)
        granted = self.tokens.check(_bearer(context))
        return Caller(granted.subject or self._certified(context), peer, granted.scopes, granted.expires_s)

    def _certified(self, context: Context) -> str:
        return _certificate_name(context) if self.certificates else ""


def machine(peer: str) -> str:
    """The address of a gRPC peer (ipv4:127.0.0.1:1234), without its port."""
    return peer.rpartition(":")[0] or peer


def _bearer(context: Context) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization":
            scheme, _, token = (value if isinstance(value, str) else value.decode("latin-1")).partition(" ")
            if scheme.lower() == "bearer" and token:
                return token.strip()
    raise Failure("NO_TOKEN", "expected the metadata `authorization: Bearer TOKEN`.")


def _certificate_name(context: Context) -> str:
    names = context.auth_context().get("x509_common_name", ())
    return next((name.decode("utf-8", "replace") for name in names), "")


def _bad_token(why: str) -> Failure:
    return Failure("BAD_TOKEN", f"expected a valid token, but {why}.")
