"""The rules of joining: what is stored for an id, and when it is output. Numbers are those of docs/joining.md."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import moneystate as ms
from services.joining.config import Config
from services.joining.records import KeptPart, KeptRequest, Result

NULL: Final = "null"


def present(json: ms.Json | None) -> ms.Json | None:
    """JSON's null counts as absent."""
    return None if json is None or json.text == NULL else json


def keep_part(result: Result, service: str, part: KeptPart) -> bool:
    """Rule 2: a body beats an error, else the greater (time, digest) stays. Returns whether it is a duplicate."""
    before = result.parts.get(service)
    if before is None:
        result.parts[service] = part
        return False
    if (before.body is None) != (part.body is None):
        if part.body is not None:
            result.parts[service] = part
        return False
    digest, digest_before = _digest_of_part(part), _digest_of_part(before)
    if (part.produced_at, digest) > (before.produced_at, digest_before):
        result.parts[service] = part
    return digest == digest_before


def keep_request(result: Result, request: KeptRequest) -> bool:
    """Rules 1 and 2: the greatest (time, digest) stays. Returns whether it is a duplicate."""
    before = result.request
    if before is None:
        result.request = request
        return False
    digest, digest_before = _digest_of_request(request), _digest_of_request(before)
    if (request.requested_at, digest) > (before.requested_at, digest_before):
        result.request = request
    return digest == digest_before


def expected_of(result: Result, config: Config) -> list[str]:
    """Rule 1: the services that the id waits for, in configured order."""
    named = result.request.services if result.request is not None else None
    wanted = named or config.expected or config.services
    return [service for service in config.services if service in wanted]


def status_at(now: int, result: Result, config: Config) -> Literal["COMPLETE", "PARTIAL"] | None:
    """Rule 3, after a record: as what the id is shown, None while it is silent. At t0 + wait itself, records come
    before the timer, which shows what they leave."""
    if not result.missing:
        return "COMPLETE"
    assert result.first_at is not None
    return "PARTIAL" if config.partial == "emit" and now > result.first_at + config.wait_ms else None


def _digest_of_part(part: KeptPart) -> bytes:
    return _digest(body=part.body, error=part.error)


def _digest_of_request(request: KeptRequest) -> bytes:
    services = None if request.services is None else ms.Json.of(request.services)
    return _digest(body=request.body, services=services)


def _digest(**members: ms.Json | None) -> bytes:
    """SHA-256 of the canonical text of an object of the members that are there, given in the order of their names."""
    texts = [f'"{name}":{value.text}' for name, value in members.items() if value is not None]
    return hashlib.sha256(("{" + ",".join(texts) + "}").encode()).digest()
