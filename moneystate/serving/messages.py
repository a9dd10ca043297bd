"""What a replica of any service says, as messages."""

from __future__ import annotations

import time
from typing import Any

from moneystate.query.v1 import header_pb2
from moneystate.replica import model

# What protobuf makes a message of within another one, in half the time of a message that is made and copied.
Fields = dict[str, Any]


def version(of: model.Version) -> header_pb2.Version:
    return header_pb2.Version(epoch=of.epoch, batch=of.batch)


def header(of: model.Header) -> header_pb2.Header:
    return header_pb2.Header(
        version=version(of.version),
        watermark_ms=of.watermark_ms,
        written_at_ms=of.written_at_ms,
        staleness_ms=max(0, int(time.time() * 1000) - of.current_as_of_ms),
        schema_fingerprint=of.schema_fingerprint,
    )


def source(of: model.Source | None) -> Fields | None:
    """A Source."""
    if of is None:
        return None
    return {"topic": of.topic, "partition": of.partition, "offset": of.offset, "event_time_ms": of.event_time_ms}
