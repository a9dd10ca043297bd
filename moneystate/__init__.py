"""The platform: stateful event processing whose output is a pure function of the logs.

`import moneystate as ms` is the API that services are declared on (docs/services.md). Its modules are imported when
they are first used: the engine in Spark's workers needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moneystate.api.types import Decimal, Digits, Json, Millis, Name, named, personal

_HOMES = {
    "moneystate.api.types": ("Decimal", "Digits", "Json", "Millis", "Name", "named", "personal"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["Decimal", "Digits", "Json", "Millis", "Name", "named", "personal"]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found
