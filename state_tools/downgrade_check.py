"""Checks whether a program of an earlier state version can read everything in a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from moneystate.engine import keys, slots
from moneystate.engine.avro import HEADER_BYTES, MAGIC
from moneystate.engine.items import RANK, TIMER_RANK, VALUE, Item
from moneystate.engine.place import own_value
from moneystate.errors import CheckpointError
from moneystate.ports.state import Versions
from state_tools.entries import count_schemas, read_entries


def check_downgrade(session: SparkSession, versions: Versions, checkpoint: Path, key_groups: int, version: int) -> None:
    """Raises CheckpointError where an entry, or an event in the buffer, has no form in state version `version`."""
    counts: Counter[bytes] = Counter()
    for (_, schema), n in count_schemas(session, checkpoint, key_groups).items():
        counts[MAGIC + bytes.fromhex(schema)] += n
    check_entries(versions, str(checkpoint), counts, version)
    chunks = (entry.value for entry in read_entries(session, checkpoint, key_groups, kind=keys.BUFFER))
    check_buffers(versions, str(checkpoint), chunks, version)


def check_entries(versions: Versions, where: str, counts: Mapping[bytes, int], version: int) -> None:
    """`counts`: entries by header. Only a first step back is asked for: where it leads, an entry itself would tell."""
    for header, n in counts.items():
        if not (header in versions.written[version] or header in versions.left_alone or header in versions.down):
            raise CheckpointError(
                f"{where}: expected entries that state version {version} can have, found {n:,} of schema "
                f"{header[len(MAGIC) :].hex()}, from which no function leads there.",
                "stay on this program, or start a new checkpoint with the older one.",
            )


def check_buffers(versions: Versions, where: str, chunks: Iterable[bytes], version: int) -> None:
    """Events of types that are newer than `version` would stop an older program when it comes to them."""
    newer = {header for header, since in versions.events_since.items() if since > version}
    unreadable: Counter[str] = Counter()
    for chunk in chunks:
        count, block = slots.open_chunk(chunk)
        items: list[Item] = []
        slots.decode_items(block, count, items)
        headers = [own_value(item[VALUE])[:HEADER_BYTES] for item in items if item[RANK] < TIMER_RANK]
        unreadable.update(header[len(MAGIC) :].hex() for header in headers if header in newer)
    if unreadable:
        raise CheckpointError(
            f"{where}: expected buffered events that a program of state version {version} knows, found "
            f"{unreadable.total():,} of schema {', '.join(sorted(unreadable))}.",
            "run the job until the watermark has passed them (Heartbeats move it), then again.",
        )
