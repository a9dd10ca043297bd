"""Builds the output for an id from its state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as quote
from typing import Literal

import moneystate as ms
from services.joining.records import Joined, JoinedPart, Result

Status = Literal["COMPLETE", "PARTIAL", "CANCELLED"]


def content_of(id: str, status: Status, expected: list[str], result: Result, revision: int) -> Joined:
    """Parts of services that are not expected are not shown."""
    shown = {service: result.parts[service] for service in expected if service in result.parts}
    parts = {service: JoinedPart(p.body, p.produced_at) for service, p in shown.items() if p.body is not None}
    errors = {service: p.error for service, p in shown.items() if p.error is not None}
    requested = [] if result.request is None or result.request.body is None else [result.request.body]
    merged, conflicts = merge([*requested, *[part.body for part in parts.values()]])
    return Joined(id, status, revision, parts, errors, list(result.missing), merged, conflicts)


def merge(bodies: Iterable[ms.Json]) -> tuple[dict[str, ms.Json], list[str]]:
    """The top-level fields of all bodies that are objects: the first value of each, and which have others."""
    merged: dict[str, ms.Json] = {}
    conflicts: set[str] = set()
    for body in bodies:
        for name, value in body.members().items():
            if merged.setdefault(name, value) != value:
                conflicts.add(name)
    return merged, sorted(conflicts)


def digest_of_content(content: Joined) -> bytes:
    """A digest of everything except the revision. It tells whether the content differs from the last output."""
    parts = _object({s: f"[{quote(part.body.text)}, {part.produced_at}]" for s, part in content.parts.items()})
    errors = _object({service: quote(error.text) for service, error in content.errors.items()})
    merged = _object({name: quote(value.text) for name, value in content.merged.items()})
    missing, conflicts = _array(content.missing), _array(content.conflicts)
    text = f"[{quote(content.status)}, {parts}, {errors}, {missing}, {merged}, {conflicts}]"
    return hashlib.sha256(text.encode()).digest()


def _object(members: dict[str, str]) -> str:
    return "{" + ", ".join([f"{quote(name)}: {members[name]}" for name in sorted(members)]) + "}"


def _array(items: list[str]) -> str:
    return "[" + ", ".join([quote(item) for item in items]) + "]"
