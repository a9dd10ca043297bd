"""Protobuf messages that every service's replica answers with."""

from __future__ import annotations

import time
from typing import Any

from moneystate.replica import model
from moneystate.state.v1 import header_pb2

# From these fields protobuf makes a nested message in half the time of creating and copying one.
Fields = dict[str, Any]


def version(value: model.Version) -> header_pb2.Version:
    return header_pb2.Version(epoch=value.epoch, batch=value.batch)


def header(value: model.Header) -> header_pb2.Header:
    return header_pb2.Header(
        version=version(value.version),
        watermark_ms=value.watermark_ms,
        written_at_ms=value.written_at_ms,
        staleness_ms=max(0, int(time.time() * 1000) - value.current_as_of_ms),
        schema_fingerprint=value.schema_fingerprint,
    )


def source(value: model.EventPlace) -> Fields:
    """A Source."""
    return {
        "topic": value.topic,
        "partition": value.partition,
        "offset": value.offset,
        "event_time_ms": value.event_time_ms,
    }
