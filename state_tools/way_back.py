"""Whether all that is in a checkpoint's state can be read by a program of an earlier state version."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from services.engine import slots
from services.engine.avro import HEADER_BYTES
from services.engine.items import TIMER_RANK, Item
from services.enrichment.migrations import DOWN, EVENTS_SINCE, LEFT_ALONE, WRITTEN
from services.errors import CheckpointError
from state_tools.entries import count_schemas, read_entries


def check_way_back(session: SparkSession, checkpoint: Path, key_groups: int, version: int) -> None:
    """Raises CheckpointError where an entry, or an event in the buffer, has no form in state version `version`."""
    for (_, schema), n in count_schemas(session, checkpoint, key_groups).items():
        if not _leads_back(bytes.fromhex("c301" + schema), version):
            raise CheckpointError(
                f"{checkpoint}: expected entries that state version {version} can have, came {n:,} of schema {schema}, "
                "from which no function leads there.",
                "stay on this program, or start a new checkpoint with the older one.",
            )
    newer = buffered_events(session, checkpoint, key_groups, version)
    if newer:
        raise CheckpointError(
            f"{checkpoint}: expected buffered events that a program of state version {version} knows, came "
            f"{sum(newer.values()):,} of schema {', '.join(sorted(newer))}.",
            "run the job until the watermark has passed them (Heartbeats move it), then again.",
        )


def _leads_back(header: bytes, version: int) -> bool:
    if header in WRITTEN[version] or header in LEFT_ALONE:
        return True
    # where the way goes on is known only of an entry; a function goes one version back
    return header in DOWN


def buffered_events(session: SparkSession, checkpoint: Path, key_groups: int, version: int) -> Counter[str]:
    """Events in buffers that are newer than state version `version`, by fingerprint (hex)."""
    newer = {header for header, since in EVENTS_SINCE.items() if since > version}
    found: Counter[str] = Counter()
    for entry in read_entries(session, checkpoint, key_groups, kind=slots.PREFIX):
        count, block = slots.open_chunk(entry.value)
        items: list[Item] = []
        slots.decode_items(block, count, items)
        headers = [item[8][:HEADER_BYTES] for item in items if item[1] < TIMER_RANK]
        found.update(header[2:].hex() for header in headers if header in newer)
    return found
