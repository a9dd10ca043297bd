"""Reads as much as possible of a record that does not decode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from moneystate.api.message import Message
from moneystate.engine.avro import Malformed
from moneystate.records.codec import Codec
from moneystate.records.json_members import readable_members
from moneystate.records.shapes import Shapes

E = TypeVar("E")
_OF_JSON: Final = "_of_json"  # the attribute of its functions


def salvage(record: type[E], of: str, right: Callable[[E], bool] = lambda e: True) -> Callable[[Message], E | None]:
    """A function for `fallback=`. It makes a `record` from a JSON object with the type `of`, and ignores invalid
    members that the record does not need. It returns None if a member of the record is invalid, or `right` returns
    False. It has no effect on a topic of another format than JSON."""
    codec = Codec(Shapes("salvaged").record(record, "salvage"))

    def salvaged(message: Message) -> E | None:
        try:
            members = readable_members(message.value)
            salvaged_record: E = codec.from_json(members)
        except Malformed:
            return None
        return salvaged_record if members.get("type") == of and right(salvaged_record) else None

    setattr(salvaged, _OF_JSON, True)
    return salvaged


def salvages(fallback: Callable[[Message], Any] | None) -> bool:
    """Whether `salvage` made the function."""
    return hasattr(fallback, _OF_JSON)
