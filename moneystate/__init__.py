"""The platform: stateful event processing whose output is a pure function of the logs.

`import moneystate as ms` is the API that services are declared on (docs/services.md). Its modules are imported when
they are first used: the engine in Spark's workers needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moneystate.api.context import Context
    from moneystate.api.entries import Entries
    from moneystate.api.forgetting import Forgotten
    from moneystate.api.handles import Input, Map, Output, Source, Timer, Value
    from moneystate.api.lookup import Asked, AskedHolding, Lookup, Outcome
    from moneystate.api.message import Message
    from moneystate.api.number_sets import (
        NumberSet,
        Packed,
        PackedEntries,
        RangeMap,
    )
    from moneystate.api.reject import Reject
    from moneystate.api.rules import Rule
    from moneystate.api.salvage import salvage
    from moneystate.api.service import Service
    from moneystate.api.table import Table
    from moneystate.api.upgrades import upgrade
    from moneystate.api.view import View, first
    from moneystate.errors import ArgumentError
    from moneystate.records.types import (
        Decimal,
        Digits,
        Header,
        Int32,
        Json,
        Millis,
        Name,
        Unavailable,
        Wire,
        arrival,
        named,
        personal,
    )

_HOMES = {
    "moneystate.api.context": ("Context",),
    "moneystate.api.entries": ("Entries",),
    "moneystate.api.forgetting": ("Forgotten",),
    "moneystate.api.handles": ("Input", "Map", "Output", "Source", "Timer", "Value"),
    "moneystate.api.lookup": ("Asked", "AskedHolding", "Lookup", "Outcome"),
    "moneystate.api.message": ("Message",),
    "moneystate.api.number_sets": (
        "NumberSet",
        "Packed",
        "PackedEntries",
        "RangeMap",
    ),
    "moneystate.api.reject": ("Reject",),
    "moneystate.api.rules": ("Rule",),
    "moneystate.api.salvage": ("salvage",),
    "moneystate.api.service": ("Service",),
    "moneystate.api.table": ("Table",),
    "moneystate.records.types": (
        "Decimal",
        "Digits",
        "Header",
        "Int32",
        "Json",
        "Millis",
        "Name",
        "Unavailable",
        "Wire",
        "arrival",
        "named",
        "personal",
    ),
    "moneystate.api.upgrades": ("upgrade",),
    "moneystate.api.view": ("View", "first"),
    "moneystate.errors": ("ArgumentError",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ArgumentError",
    "Asked",
    "AskedHolding",
    "Context",
    "Decimal",
    "Digits",
    "Entries",
    "Forgotten",
    "Header",
    "Input",
    "Int32",
    "Json",
    "Lookup",
    "Map",
    "Message",
    "Millis",
    "Name",
    "NumberSet",
    "Outcome",
    "Output",
    "Packed",
    "PackedEntries",
    "RangeMap",
    "Reject",
    "Rule",
    "Service",
    "Source",
    "Table",
    "Timer",
    "Unavailable",
    "Value",
    "View",
    "Wire",
    "arrival",
    "first",
    "named",
    "personal",
    "salvage",
    "upgrade",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    exported = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = exported
    return exported
