"""What a token lets its caller write.

The claim `ingest` has the topics. For each it may bind fields of the records to values. With
`{"readings": {"deviceId": "7"}}` a device sends readings of its own only. The claim `ingest_rate` is the caller's limit
in records a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moneystate.serving.tokens import BadToken

TOPICS: Final = "ingest"
RATE: Final = "ingest_rate"

Bounds = Mapping[str, frozenset[str]]
"""The values that a field may have, as text, by its path in JSON."""
UNBOUND: Final[Bounds] = {}


@dataclass(frozen=True, slots=True)
class Rights:
    topics: Mapping[str, Bounds] | None  # None: all topics
    rate: float | None = None  # records a second; None: the server's own limit

    def bounds(self, topic: str) -> Bounds | None:
        """None: the topic is not granted."""
        return UNBOUND if self.topics is None else self.topics.get(topic)


EVERYTHING: Final = Rights(None)


def rights_of(claims: Mapping[str, Any]) -> Rights:
    """Raises BadToken for claims of another form: a bound that is not understood must not be ignored."""
    topics = claims.get(TOPICS, {})
    if type(topics) is not dict:
        raise BadToken(f"its claim {TOPICS} is not an object of topics")
    return Rights({name: _bounds(name, fields) for name, fields in topics.items()}, _rate(claims.get(RATE)))


def _bounds(topic: str, fields: Any) -> Bounds:
    if type(fields) is not dict:
        raise BadToken(f"its claim {TOPICS} has no object for the topic {topic}")
    return {field: _values(field, values) for field, values in fields.items()}


def _values(field: str, values: Any) -> frozenset[str]:
    listed = values if type(values) is list else [values]
    if not listed or any(type(value) not in (str, int) for value in listed):
        raise BadToken(f"its claim {TOPICS} binds {field} to something other than texts or whole numbers")
    return frozenset(str(value) for value in listed)


def _rate(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise BadToken(f"its claim {RATE} is not a positive number")
    return float(value)
