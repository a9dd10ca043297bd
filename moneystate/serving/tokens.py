"""Verifies bearer tokens: JWTs that were signed with the private key of one of `--token-key`
(`moneystate.serving.token_keys`).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import jwt

from moneystate.errors import ConfigError
from moneystate.serving.token_keys import FLAG, TokenKey, TokenKeys, read_keys
from moneystate.serving.watched import Watched

Rights = TypeVar("Rights")

CACHED_TOKENS: Final = 10_000  # checking a signature costs about as much as the rest of a point read
MAX_TOKEN_BYTES: Final = 8_192
KEYS_LOOK_S: Final = 1.0  # how often the key file is checked for changes


class BadToken(Exception):
    """A token that grants nothing. The message says why."""


@dataclass(frozen=True, slots=True)
class Granted(Generic[Rights]):
    """The content of a token that has been verified."""

    subject: str
    rights: Rights
    expires_s: float


class TokenCheck(Generic[Rights]):
    """Checks tokens. The key file is read again when it changes: tokens of a removed key stop working.

    `rights_of` reads what the claims grant, once for each token. It may raise BadToken. The constructor raises
    ConfigError if the file has no usable key.
    """

    def __init__(
        self, key_file: str, audience: str, issuer: str, rights_of: Callable[[Mapping[str, Any]], Rights]
    ) -> None:
        try:
            self.keys: Watched[TokenKeys] = Watched("token keys", [key_file], lambda: read_keys(key_file))
        except OSError as e:
            raise ConfigError(
                f"{FLAG} {key_file}: expected a file of keys, but {e.strerror}.", "check the path."
            ) from None
        self.look_at = 0.0
        self.audience = audience or None
        self.issuer = issuer or None
        self.rights_of = rights_of
        self.checked: OrderedDict[str, Granted[Rights]] = OrderedDict()

    def check(self, token: str) -> Granted[Rights]:
        """Raises BadToken."""
        self._look()
        granted = self.checked.get(token)
        if granted is None:
            granted = self._decode(token)
            self.checked[token] = granted
            if len(self.checked) > CACHED_TOKENS:
                self.checked.popitem(last=False)
        if granted.expires_s <= time.time():
            self.checked.pop(token, None)
            raise BadToken("it has expired")
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
            raise BadToken(f"it is not valid ({e})") from None
        key = self.keys.current.find(kid)
        if key is None:
            raise BadToken("its `kid` is not that of a key that is known here")
        return key

    def _decode(self, token: str) -> Granted[Rights]:
        if len(token) > MAX_TOKEN_BYTES:
            raise BadToken(f"it is longer than {MAX_TOKEN_BYTES} bytes")
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
            raise BadToken("it has expired") from None
        except jwt.PyJWTError as e:
            raise BadToken(f"it is not valid ({e})") from None
        return Granted(str(claims.get("sub", "")), self.rights_of(claims), float(int(claims["exp"])))


def bearer(authorization: str) -> str:
    """The token in the value of the header `authorization`; empty: it has none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
