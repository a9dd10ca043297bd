"""Checks whether a program of an earlier state version can read everything in a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from moneystate.engine import keys, slots
from moneystate.engine.avro import HEADER_BYTES, MAGIC
from moneystate.engine.items import RANK, TIMER_RANK, VALUE, Item
from moneystate.engine.place import own_value
from moneystate.errors import CheckpointError
from moneystate.job.checkpoint import Checkpoint
from moneystate.ports.state import Versions
from state_tools.entries import count_schemas, read_entries


def check_downgrade(
    session: SparkSession, versions: Versions, checkpoint: Checkpoint, key_groups: int, version: int
) -> None:
    """Raises CheckpointError if state version `version` cannot represent an entry, or an event in the buffer."""
    counts: Counter[bytes] = Counter()
    for (_, schema), n in count_schemas(session, checkpoint.folder.address, key_groups).items():
        counts[MAGIC + bytes.fromhex(schema)] += n
    check_entries(versions, checkpoint.root, counts, version)
    chunks = (entry.value for entry in read_entries(session, checkpoint.folder.address, key_groups, kind=keys.BUFFER))
    check_buffers(versions, checkpoint.root, chunks, version)


def check_entries(versions: Versions, where: str, counts: Mapping[bytes, int], version: int) -> None:
    """Checks the entries' headers, with their `counts`. It only checks that a first downgrade step exists: whether more
    steps work depends on the entry itself."""
    for header, n in counts.items():
        if not (header in versions.written[version] or header in versions.left_alone or header in versions.down):
            raise CheckpointError(
                f"{where}: expected entries that state version {version} can represent, found {n:,} of schema "
                f"{header[len(MAGIC) :].hex()}, which cannot be downgraded.",
                "stay on this program, or start a new checkpoint with the older one.",
            )


def check_buffers(versions: Versions, where: str, chunks: Iterable[bytes], version: int) -> None:
    """Checks that an older program knows all buffered events. It would fail on an unknown one."""
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
            "run the job until the watermark has passed them (heartbeats advance it), then try again.",
        )
