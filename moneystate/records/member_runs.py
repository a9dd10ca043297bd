"""Reads the members of a JSON object into the fields of a record, for generated JSON codecs. It is compiled, which
generated code is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.records.json_parts import MISSING, boolean_in, inside, long_in, millis_in, string_in

STRING: Final = 0
LONG: Final = 1
MILLIS: Final = 2
BOOLEAN: Final = 3
OTHER: Final = 4  # read by the member's function
MAYBE: Final = 8  # added to another kind: null is allowed
KINDS: Final = {"string": STRING, "long": LONG, "millis": MILLIS, "boolean": BOOLEAN}

Member = tuple[str, str, int, Callable[[Any], Any] | None, Callable[[], Any] | None, tuple[str, ...]]
"""Attribute, name of the member, kind, function that reads it, function that makes the default; None: neither. Then the
names that it may have instead."""


def read_members(values: dict[str, Any], document: dict[str, Any], members: list[Member]) -> None:
    """Sets `values`, in the order of `members`. Raises Malformed, which names the first member that is wrong."""
    for attribute, name, tagged, read, make_default, others in members:
        value: Any = document.get(name, MISSING)
        if value is MISSING:
            for other in others:
                value = document.get(other, MISSING)
                if value is not MISSING:
                    break
        if value is MISSING:
            if make_default is None:
                raise Malformed(name + ": missing")
            values[attribute] = make_default()
            continue
        try:
            values[attribute] = _read(value, tagged, read)
        except Malformed as e:
            raise inside(name, e) from None


def _read(value: Any, tagged: int, read: Callable[[Any], Any] | None) -> Any:
    kind = tagged
    if kind >= MAYBE:
        if value is None:
            return None
        kind -= MAYBE
    if kind == STRING:
        return string_in(value)
    if kind == LONG:
        return long_in(value)
    if kind == MILLIS:
        return millis_in(value)
    if kind == BOOLEAN:
        return boolean_in(value)
    assert read is not None
    return read(value)
