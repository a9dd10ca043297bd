"""Forgetting a key on request: the declaration, and the proof that it was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from moneystate.api.handles import Input, Value
from moneystate.records.types import Millis, named

FORGOTTEN = "forgotten"  # the state


@named("moneystate.Forgotten")
@dataclass
class Forgotten:
    """State: the proof that a key was forgotten, by the last request of which it was."""

    at: Millis = 0  # the order time
    request_id: str = ""
    requested_by: str = ""
    topic: str = ""  # the place of the request in the log
    partition: int = 0
    offset: int = 0


class Forgetting(NamedTuple):
    """Holds what a service declares."""

    input: Input[Any]
    id: str  # the field with the id of the request
    by: str  # the field that says who asks
    proof: Value[Forgotten]
