"""What people type into pages, as the query servers want it. Raises Asked, which pages show."""

from __future__ import annotations

from moneystate.console.servers import Asked
from moneystate.engine.avro import Malformed
from moneystate.records.iso_time import to_ms
from moneystate.serving.arguments import Mistyped, index_value, version_of
from moneystate.state.v1 import header_pb2
from moneystate.state.v1 import state_pb2 as s


def parse_at(version: str, time: str) -> header_pb2.At | None:
    """EPOCH/BATCH, or a time; both empty: the newest version."""
    if version:
        return header_pb2.At(version=parse_version(version))
    return header_pb2.At(event_time_ms=parse_time(time)) if time else None


def parse_time(text: str) -> int:
    """An ISO time, or ms since 1970."""
    try:
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else to_ms(text)
    except Malformed:
        raise Asked("INVALID_ARGUMENT", f"{text}: expected a time such as 2026-01-31T10:00:00Z.") from None


def parse_version(text: str) -> header_pb2.Version:
    try:
        return version_of(text)
    except Mistyped as e:
        raise Asked("INVALID_ARGUMENT", str(e)) from None


def parse_index_value(text: str) -> s.IndexValue:
    """Parts separated by commas."""
    try:
        return index_value(text.split(","))
    except Mistyped as e:
        raise Asked("INVALID_ARGUMENT", str(e)) from None
