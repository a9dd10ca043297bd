"""Who sends a request, and what they may do."""

from __future__ import annotations

from typing import NamedTuple

from moneystate.deliver.interface.refusals import Refused
from moneystate.deliver.interface.rights import EVERYTHING, Rights
from moneystate.serving.http_security import Scope, Unauthorized, granted
from moneystate.serving.tokens import TokenCheck


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
        try:
            return Caller(*granted(self._tokens, scope, EVERYTHING))
        except Unauthorized as e:
            raise Refused(e.code, str(e)) from None
