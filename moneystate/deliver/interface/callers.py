"""Who sends a request, and what they may do."""

from __future__ import annotations

from typing import NamedTuple

from moneystate.deliver.interface.refusals import Refused
from moneystate.deliver.interface.rights import EVERYTHING, Rights
from moneystate.serving.http_security import Scope, machine_of, token_in
from moneystate.serving.tokens import BadToken, TokenCheck


class Caller(NamedTuple):
    subject: str  # of the token, else empty
    machine: str  # the address, without its port
    rights: Rights

    @property
    def identity(self) -> str:
        """The one that limits count for."""
        return self.subject or self.machine


class Callers:
    def __init__(self, tokens: TokenCheck[Rights] | None) -> None:
        self._tokens = tokens  # None: callers need no token, and may do everything

    def caller(self, scope: Scope) -> Caller:
        """Raises Refused."""
        machine = machine_of(scope)
        if self._tokens is None:
            return Caller("", machine, EVERYTHING)
        token = token_in(scope)
        if not token:
            raise Refused("NO_TOKEN", "expected the header `Authorization: Bearer TOKEN`.")
        try:
            granted = self._tokens.check(token)
        except BadToken as e:
            raise Refused("BAD_TOKEN", f"expected a valid token, but {e}.") from None
        return Caller(granted.subject, machine, granted.rights)
