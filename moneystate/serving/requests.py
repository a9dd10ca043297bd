"""Validates requests and selects the version to read. Raises Failure."""

from __future__ import annotations

from typing import Final

from moneystate.replica import model
from moneystate.replica.reader import ReplicaReader
from moneystate.replica.snapshot import Snapshot
from moneystate.serving.failures import malformed
from moneystate.state.v1 import header_pb2

MAX_TEXT_BYTES: Final = 1_024
DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 1_000
MAX_BATCH: Final = 1_000


def name(text: str, field: str) -> str:
    """A text that names something."""
    if not text:
        raise malformed(field, "expected a value, found nothing")
    return optional_name(text, field)


def optional_name(text: str, field: str) -> str:
    if len(text) > MAX_TEXT_BYTES or len(text.encode()) > MAX_TEXT_BYTES:
        raise malformed(field, f"expected at most {MAX_TEXT_BYTES} bytes, found {len(text.encode())}")
    return text


def page_size(asked: int) -> int:
    if not 0 <= asked <= MAX_PAGE:
        raise malformed("page_size", f"expected 0 (for {DEFAULT_PAGE}) to {MAX_PAGE}, found {asked}")
    return asked or DEFAULT_PAGE


def version(asked: header_pb2.Version, field: str) -> model.Version:
    name(asked.epoch, f"{field}.epoch")
    if asked.batch < -1:  # -1: the state that an epoch began with
        raise malformed(f"{field}.batch", f"expected a number from -1 on, found {asked.batch}")
    return model.Version(asked.epoch, asked.batch)


def snapshot(reader: ReplicaReader, read_at: header_pb2.At, field: str = "at") -> Snapshot:
    """The state that `read_at` pins."""
    which = read_at.WhichOneof("at")
    if which is None:
        return reader.latest()
    if which == "version":
        return reader.at_version(version(read_at.version, f"{field}.version"))
    return reader.at_time(read_at.event_time_ms)
