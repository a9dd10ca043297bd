"""Builds the output for an id from its state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Literal

import moneystate as ms
from services.joining.records import Joined, JoinedPart, Result

Status = Literal["COMPLETE", "PARTIAL", "CANCELLED"]


def content_of(id: str, status: Status, expected: list[str], result: Result, revision: int) -> Joined:
    """Parts of services that are not expected are not shown."""
    parts: dict[str, JoinedPart] = {}
    errors: dict[str, ms.Json] = {}
    bodies = [result.request.body] if result.request is not None else []
    for service in expected:
        part = result.parts.get(service)
        if part is None:
            continue
        if part.body is not None:
            parts[service] = JoinedPart(part.body, part.produced_at)
            bodies.append(part.body)
        elif part.error is not None:
            errors[service] = part.error
    merged, conflicts = merge(bodies)
    return Joined(id, status, revision, parts, errors, list(result.missing), merged, conflicts)


def merge(bodies: Iterable[ms.Json | None]) -> tuple[dict[str, ms.Json], list[str]]:
    """The top-level fields of all bodies that are objects: the first value of each, and which have others."""
    merged: dict[str, ms.Json] = {}
    conflicts: list[str] = []
    for body in bodies:
        if body is None:
            continue
        for name, value in body.members().items():
            if merged.setdefault(name, value) != value and name not in conflicts:
                conflicts.append(name)
    return merged, sorted(conflicts)


def digest_of_content(content: Joined) -> bytes:
    """A digest of everything except the revision. It tells whether the content differs from the last output."""
    parts = {service: (part.body.text, part.produced_at) for service, part in content.parts.items()}
    errors = {service: error.text for service, error in content.errors.items()}
    merged = {name: value.text for name, value in content.merged.items()}
    text = json.dumps((content.status, parts, errors, content.missing, merged, content.conflicts), sort_keys=True)
    return hashlib.sha256(text.encode()).digest()
