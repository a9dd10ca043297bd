"""Versions and times that people type, as the query servers want them."""

from __future__ import annotations

from moneystate.api.iso_time import to_ms
from moneystate.console.servers import Asked
from moneystate.query.v1 import header_pb2


def parse_at(version: str, time: str) -> header_pb2.At | None:
    """EPOCH/BATCH, or an ISO time; both empty: the newest version. Raises Asked."""
    if version:
        return header_pb2.At(version=parse_version(version))
    if not time:
        return None
    try:
        return header_pb2.At(event_time_ms=int(time) if time.isdigit() else to_ms(time))
    except ValueError:
        raise Asked("INVALID_ARGUMENT", f"{time}: expected a time such as 2026-01-31T10:00:00Z.") from None


def parse_version(text: str) -> header_pb2.Version:
    """Raises Asked."""
    epoch, slash, batch = text.rpartition("/")
    if not slash or not batch.isdigit() or len(batch) > 18:
        raise Asked("INVALID_ARGUMENT", f"{text}: expected a version, EPOCH/BATCH.")
    return header_pb2.Version(epoch=epoch, batch=int(batch))
