"""Asks an OpenID provider over HTTP: for its configuration, its keys, and the tokens of a login."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from authlib.oidc.discovery import get_well_known_url

from moneystate.console import oidc
from moneystate.console.oidc import Attempt, OidcClient, Provider, Refused
from moneystate.errors import ConfigError
from moneystate.http import HttpCall, HttpFailure, HttpReply, HttpSender
from moneystate.serving.token_keys import TokenKeys, keys_of_set

TIMEOUT_S: Final = 5.0
KNOWN_S: Final = 3_600.0  # for so long a configuration counts
KEYS_EVERY_S: Final = 60.0  # least time before keys are asked for again, as a token with an unknown key may be anyone's
CONNECTIONS: Final = 10


@dataclass
class OidcProvider:
    """`seconds`: a clock that only goes forward."""

    client: OidcClient
    sender: HttpSender = field(default_factory=lambda: HttpSender(CONNECTIONS))
    seconds: Callable[[], float] = time.monotonic
    known: tuple[float, Provider] | None = None
    keys: tuple[float, TokenKeys] | None = None

    async def begin(self, after: str) -> tuple[Attempt, str]:
        """A login, and the URL of the provider for it. Raises Refused."""
        attempt = Attempt.begun(after)
        return attempt, oidc.authorization_url(self.client, await self.provider(), attempt)

    async def finish(self, given: dict[str, str], attempt: Attempt) -> str:
        """The access token. `given`: what the provider has sent the browser back with. Raises Refused."""
        provider = await self.provider()
        code = oidc.code_in(given, self.client, provider, attempt)
        access, identity = oidc.tokens_in(await self._sent(oidc.token_call(self.client, provider, attempt, code)))
        keys = await self._keys_for(identity, provider)
        oidc.check_identity(identity, access, keys, self.client, attempt)
        return access

    async def logout_url(self) -> str:
        """Raises Refused."""
        return oidc.logout_url(self.client, await self.provider())

    async def provider(self) -> Provider:
        """Raises Refused."""
        if self.known is None or self.seconds() - self.known[0] > KNOWN_S:
            reply = await self._got(get_well_known_url(self.client.issuer, external=True))
            self.known = self.seconds(), oidc.provider_of(self.client, reply)
        return self.known[1]

    async def _keys_for(self, identity: str, provider: Provider) -> TokenKeys:
        """Keys that a provider has added since are asked for once a token names one."""
        kid = oidc.key_id(identity)
        if self.keys is not None:
            asked_s, keys = self.keys
            if keys.find(kid) is not None or self.seconds() - asked_s < KEYS_EVERY_S:
                return keys
        reply = await self._got(provider.keys)
        try:
            self.keys = self.seconds(), keys_of_set(provider.keys, reply.body)
        except ConfigError as e:
            raise Refused(str(e)) from None
        return self.keys[1]

    async def _got(self, url: str) -> HttpReply:
        return await self._sent(HttpCall(url, headers={"Accept": "application/json"}, max_reply_bytes=oidc.MOST_BYTES))

    async def _sent(self, call: HttpCall) -> HttpReply:
        """Raises Refused."""
        try:
            return await self.sender.send(call, TIMEOUT_S)
        except HttpFailure as e:
            raise Refused(f"expected an answer of the provider, but {e.reason}.") from None

    async def close(self) -> None:
        await self.sender.close()
