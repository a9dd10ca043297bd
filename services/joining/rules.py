"""The rules of joining: what is stored for an id, and when it is output. Numbers are those of docs/joining.md."""

from __future__ import annotations

import hashlib
from typing import Literal, TypeVar

import moneystate as ms
from services.joining.config import Config
from services.joining.records import KeptPart, KeptRequest, Result

K = TypeVar("K", KeptPart, KeptRequest)


def present(json: ms.Json | None) -> ms.Json | None:
    """JSON's null counts as absent."""
    return None if json is None or json.text == "null" else json


def keep(before: K | None, new: K) -> tuple[K, bool]:
    """Rules 1 and 2: the one that stays, of parts of a service or of requests, and whether `new` is a duplicate."""
    if before is None:
        return new, False
    rank, rank_before = _rank(new), _rank(before)
    return new if rank > rank_before else before, rank[-1] == rank_before[-1]


def expected_of(result: Result, config: Config) -> list[str]:
    """Rule 1: the services that the id waits for, in configured order."""
    named = result.request.services if result.request is not None else None
    wanted = named or config.expected
    if not wanted:
        return list(config.services)
    return [service for service in config.services if service in wanted]


def status_at(now: int, result: Result, config: Config) -> Literal["COMPLETE", "PARTIAL"] | None:
    """Rule 3, after a record: as what the id is shown, None while it is silent. At t0 + wait itself, records come
    before the timer, which shows what they leave."""
    if not result.missing:
        return "COMPLETE"
    assert result.first_at is not None
    return "PARTIAL" if config.partial == "emit" and now > result.first_at + config.wait_ms else None


def _rank(one: KeptPart | KeptRequest) -> tuple[bool, int, bytes]:
    """The greatest stays: a body beats an error, then time decides, then the digest, which is the last."""
    if isinstance(one, KeptPart):
        return one.body is not None, one.produced_at, _digest(body=one.body, error=one.error)
    services = None if one.services is None else ms.Json.of(one.services)
    return True, one.requested_at, _digest(body=one.body, services=services)


def _digest(**members: ms.Json | None) -> bytes:
    """SHA-256 of the canonical text of an object of the members that are there, given in the order of their names."""
    texts = [f'"{name}":{value.text}' for name, value in members.items() if value is not None]
    return hashlib.sha256(("{" + ",".join(texts) + "}").encode()).digest()
