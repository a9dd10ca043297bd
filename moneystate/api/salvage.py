"""Reads as much as possible of a record that does not decode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from moneystate.api.codec import Codec
from moneystate.api.json_members import readable_members
from moneystate.api.message import Message
from moneystate.api.shapes import Shapes
from moneystate.engine.avro import Malformed

E = TypeVar("E")


def salvage(record: type[E], of: str, right: Callable[[E], bool] = lambda e: True) -> Callable[[Message], E | None]:
    """For `fallback=`: makes a `record` of the members with its names in a JSON object whose type is `of`, whatever is
    wrong with the others. Not where one of its own does not fit, or it is not `right`."""
    codec = Codec(Shapes("salvaged").record(record, "salvage"))

    def salvaged(message: Message) -> E | None:
        try:
            members = readable_members(message.value)
            made: E = codec.from_json(members)
        except Malformed:
            return None
        return made if members.get("type") == of and right(made) else None

    return salvaged
