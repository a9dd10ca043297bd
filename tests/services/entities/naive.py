"""An entity as rule 1 defines it: its bodies in the order of their stamps, as RFC 7386 writes merge patches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Write(NamedTuple):
    stamp: Any
    kind: Any
    body: Any


def patched(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = patched(result.get(name), value)
    return result


def in_order(writes: Iterable[Write]) -> tuple[str, Any]:
    """Status, and what the bodies since the newest deletion make, seen or not; None where there are none."""
    status, document = "UNKNOWN", None
    for _, kind, body in sorted(writes, key=lambda write: write.stamp):
        if kind == "deleted":
            status, document = "DELETED", None
        else:
            status = "ACTIVE" if kind == "created" else status
            document = patched(document, body)
    return status, document
