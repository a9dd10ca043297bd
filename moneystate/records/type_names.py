"""The names by which a JSON topic tells its records apart.

A value has its type in the member `type`. A heartbeat is an object with exactly a heartbeat's members. A topic's
records are looked up among the topic's own types only, so types of the same name are fine in different topics.
"""

from __future__ import annotations

import re
from typing import Any, Final

from moneystate.records.platform_records import HEARTBEAT_RECORD
from moneystate.records.shapes import Record

TYPE: Final = "type"
_SEPARATORS: Final = re.compile("[._-]")
HEARTBEAT: Final = HEARTBEAT_RECORD.short
HEARTBEAT_MEMBERS: Final = frozenset({TYPE, *[f.label for f in HEARTBEAT_RECORD.fields]})


def is_heartbeat(document: dict[str, Any]) -> bool:
    """Whether the object has exactly a heartbeat's members. The type alone is not enough: a service may have a type or
    a field of that name."""
    return document.get(TYPE) == HEARTBEAT and document.keys() == HEARTBEAT_MEMBERS


def spelled(name: str) -> str:
    """Returns the same text for all spellings of a type's name: `OrderPlaced`, `order.placed`, `ORDER_PLACED`."""
    return _SEPARATORS.sub("", name).lower()


def has_type_field(record: Record) -> bool:
    """Whether the record itself has a field named `type`."""
    return any(f.label == TYPE for f in record.fields)
