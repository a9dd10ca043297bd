"""What an error of the database means for the records that are being applied (docs/apply.md)."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Verdict(Enum):
    again = auto()  # the server's or the network's: tried again, for ever
    refused = auto()  # of the login or the database's name: at the start an error, later tried again
    data = auto()  # of a record: it becomes a dead letter
    stop = auto()  # a mistake in a statement or a function, or anything else


# connection, rollback, resources, operator, system
_AGAIN_CLASSES: Final = ("08", "40", "53", "57", "58")
# lock not available, read only, idle in transaction, transaction timeout
_AGAIN: Final = ("55P03", "25006", "25P03", "25P04")
_CACHED_PLAN: Final = "0A000"
_REFUSED_CLASSES: Final = ("28", "3D")
_DATA_CLASSES: Final = ("22", "23")
_DATA: Final = ("54000",)


def verdict(sqlstate: str | None, message: str = "") -> Verdict:
    """`sqlstate`: None if the server did not answer with one: it refused the connection, or is gone."""
    if sqlstate is None or sqlstate[:2] in _AGAIN_CLASSES or sqlstate in _AGAIN:
        return Verdict.again
    if sqlstate == _CACHED_PLAN and "cached plan" in message:
        return Verdict.again
    if sqlstate[:2] in _REFUSED_CLASSES:
        return Verdict.refused
    if sqlstate[:2] in _DATA_CLASSES or sqlstate in _DATA:
        return Verdict.data
    return Verdict.stop
