"""Finds where the changelog has exactly a stopped job's state, for replicas that load a savepoint of it."""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient

from moneystate.engine import ends, keys
from moneystate.engine.ends import EndOfBatch
from moneystate.errors import SavepointError
from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import log_ends, log_starts, topic_states
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.replica.model import Version
from moneystate.savepoint.manifest import ChangelogPosition

FIRST_STEP = 1_000  # records from the log's end that are read first
STEP_FACTOR = 8


def changelog_position(
    servers: str, kafka: dict[str, str], topic: str, key_groups: int, version: Version
) -> ChangelogPosition:
    """The log's ends, if `version` is the last one in them. Raises SavepointError if it is not, SetupError."""
    admin = admin_client(servers, kafka)
    state = topic_states(admin, [topic])[topic]
    read_ms = int(time.time() * 1000)
    positions = {p: end for (_, p), end in log_ends(admin, [(topic, p) for p in state.partitions]).items()}
    reader = RangeReader(servers, kafka, "moneystate-export")
    try:
        last = [
            _last_ends(admin, reader, Range(topic, p, 0, end), {*range(p, key_groups, len(positions))})
            for p, end in positions.items()
        ]
    finally:
        reader.consumer.close()
    written = [end_and_time for partition in last for end_and_time in partition.values()]
    other = [end for end, _ in written if (end.epoch, end.batch) != version]
    if other or len(written) != key_groups:
        actual = f"that of {Version(other[0].epoch, other[0].batch)}" if other else f"{len(written)} key groups"
        raise SavepointError(
            f"{topic}: expected the end of {version} in {key_groups} key groups, found {actual}.",
            "check that the job has stopped, and that this is its changelog.",
        )
    return ChangelogPosition(
        state.topic_id,
        {str(p): end for p, end in positions.items()},
        read_ms,
        max(written_at_ms for _, written_at_ms in written),
        dict(written[0][0].rules),
    )


def _last_ends(
    admin: AdminClient, reader: RangeReader, log: Range, key_groups: set[int]
) -> dict[int, tuple[EndOfBatch, int]]:
    """The last end-of-batch record of each key group of a partition, with its timestamp. They are near the log's end,
    so this reads backwards in growing steps."""
    first = log_starts(admin, [(log.topic, log.partition)])[log.topic, log.partition]
    step, seen = FIRST_STEP, dict[int, tuple[EndOfBatch, int]]()
    while key_groups:
        start = max(first, log.end - step)
        for message in reader.read([Range(log.topic, log.partition, start, log.end)]):
            if (message.key() or b"").startswith(keys.END) and message.value() is not None:
                end = ends.decode(message.value())
                seen.update((group, (end, message.timestamp()[1])) for group in end.key_groups if group in key_groups)
        if seen.keys() == key_groups or start == first:
            break
        step *= STEP_FACTOR
    return seen
