"""The service Status (proto/moneystate/state/v1/status.proto), and the metrics of the replica."""

from __future__ import annotations

import importlib.metadata
import time
from collections import Counter

from moneystate.replica.model import Status
from moneystate.replica.reader import ReplicaReader
from moneystate.serving import header_messages
from moneystate.serving.calls import Call
from moneystate.serving.metrics import Metrics
from moneystate.state.v1 import status_pb2

SERVER_VERSION = importlib.metadata.version("moneystate")


class StatusService:
    def __init__(self, reader: ReplicaReader) -> None:
        self.reader = reader

    def get_status(self, _: status_pb2.GetStatusRequest, call: Call) -> status_pb2.GetStatusResponse:
        status = self.reader.status()
        return status_pb2.GetStatusResponse(
            header=None if status.header is None else header_messages.header(status.header),
            caught_up=status.caught_up,
            oldest=None if status.oldest is None else header_messages.version(status.oldest),
            lag_records=status.lag_records,
            keys=status.keys,
            schema_counts=[
                status_pb2.SchemaCount(kind=c.kind, schema_version=c.schema_version, entries=c.entries)
                for c in status.schema_counts
            ],
            database_bytes=status.database_bytes,
            key_groups=status.key_groups,
            server_version=SERVER_VERSION,
        )


def gauge(metrics: Metrics, status: Status) -> None:
    metrics.reported.set_to_current_time()
    metrics.caught_up.set(status.caught_up)
    metrics.lag_records.set(status.lag_records)
    metrics.lag_seconds.set(max(0.0, time.time() - status.current_as_of_ms / 1000))
    metrics.database_bytes.set(status.database_bytes)
    metrics.keys.set(status.keys)
    by_kind = Counter[str]()
    for count in status.schema_counts:
        by_kind[count.kind] += count.entries
    for kind, entries in by_kind.items():
        metrics.entries.labels(kind).set(entries)
    if status.header is not None:
        metrics.batch.set(status.header.version.batch)
        if status.header.watermark_ms is not None:
            metrics.watermark_seconds.set(status.header.watermark_ms / 1000)
