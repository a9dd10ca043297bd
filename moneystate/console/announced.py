"""What announces itself by `--announce`: query servers and metrics, as far as the console may ask them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from moneystate.errors import MoneystateError
from moneystate.kafka.announcements import METRICS, STATE, Announcement
from moneystate.log import get_log
from moneystate.serving.addresses import is_address, is_loopback
from moneystate.serving.client import Target

NO_ADDRESS: Final = "expected HOST:PORT as the key."
OTHER_MACHINE: Final = "expected an address that other machines reach, found a loopback one of {host}."
NO_CA: Final = "expected the CA of its certificate: give --state-ca."
NOT_ENCRYPTED: Final = "expected TLS, as the server is sent the tokens of callers."
_log = get_log(__name__)


@dataclass(frozen=True)
class Rules:
    """`host`: the name of this machine; `ca`: of query servers, a PEM file; `sends_tokens`: those of callers."""

    host: str
    ca: str
    sends_tokens: bool

    def refusal(self, its: Announcement) -> str:
        """Returns why the console does not ask there; empty: it does."""
        if not is_address(its.address):
            return NO_ADDRESS
        is_near = is_loopback(its.address)
        if is_near and its.host != self.host:
            return OTHER_MACHINE.format(host=its.host)
        if its.kind == METRICS:
            return ""
        if its.has_tls and not self.ca:
            return NO_CA
        if self.sends_tokens and not its.has_tls and not is_near:
            return NOT_ENCRYPTED
        return ""

    def target(self, its: Announcement) -> Target:
        return Target(its.address, ca=self.ca if its.has_tls else "")


@dataclass
class Announced:
    """Calls block. `tell_servers`, `tell_metrics`: take those of a look."""

    topic: str  # without its prefix
    read: Callable[[int], Sequence[Announcement]]
    rules: Rules
    tell_servers: Callable[[Sequence[Target]], None]
    tell_metrics: Callable[[Sequence[str]], None]
    refused: dict[str, str] = field(default_factory=dict)  # why, by address

    def look(self, topics: Collection[str]) -> None:
        """`topics`: those that are there."""
        if self.topic not in topics:
            return
        try:
            known = self.read(time.time_ns() // 1_000_000)
        except MoneystateError as e:
            _log.debug(str(e))  # what reads the jobs says it
            return
        refused = {its.address: why for its in known if (why := self.rules.refusal(its))}
        for address, why in refused.items():
            if self.refused.get(address) != why:
                _log.warning(f"{address} announces itself, but is not asked: {why}")
        self.refused = refused
        taken = [its for its in known if its.address not in refused]
        self.tell_servers([self.rules.target(its) for its in taken if its.kind == STATE])
        self.tell_metrics([its.address for its in taken if its.kind == METRICS])
