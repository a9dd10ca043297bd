"""Inspects a checkpoint or savepoint. It reads only the key groups that it needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit

from moneystate.engine import clock as clocks
from moneystate.engine import plan as plans
from moneystate.engine.keygroup import key_group_of
from moneystate.engine.plan import TopicPartition
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.storage.savepoints import fetched
from moneystate.ports.state import StateModel
from moneystate.savepoint.format import Savepoint
from moneystate.savepoint.view import job_view, owner_view
from state_tools.entries import entry_rows
from state_tools.export import open_checkpoint
from state_tools.offline import PLACE, is_savepoint, offline_session

Pairs = Iterable[tuple[bytes, bytes]]


def inspect_state(state: StateModel, folder: str, key: bytes | None) -> dict[str, Any] | None:
    """The state of a key (None: there is no such key), or of the whole job if `key` is None."""
    if is_savepoint(folder):
        savepoint = Savepoint(fetched(folder, PLACE))
        m = savepoint.manifest
        if key is not None:
            return owner_view(state, key, savepoint.entries(key_group_of(key, m.key_groups)), m.rules)
        entries = (entry for group in range(m.key_groups) for entry in savepoint.entries(group))
        read = {} if m.plan is None else plans.from_offset(m.plan).partitions
        return _job(state, [(key, value) for key, value in entries if key == clocks.KEY], m.rules, read)
    checkpoint = open_checkpoint(folder)
    offset = checkpoint.offset(checkpoint.last_committed())
    rules = checkpoint.rules(offset["rules"])
    with offline_session() as session:
        if key is not None:
            return owner_view(state, key, _group_of_key(session, checkpoint, key), rules)
        return _job(state, _clocks(session, checkpoint), rules, plans.from_offset(offset).partitions)


def _job(state: StateModel, entries: Pairs, rules: dict[str, Any], read: Iterable[TopicPartition]) -> dict[str, Any]:
    decoded = [clocks.decode(value) for _, value in entries]
    counts: dict[str, int] = {}
    for clock in decoded:
        for name, n in clock.counts.items():
            counts[name] = counts.get(name, 0) + n
    view = job_view(state, decoded[0], sum(clock.buffered() for clock in decoded), read)
    return {**view, "counts": counts, "rules": rules}


def _group_of_key(session: SparkSession, checkpoint: Checkpoint, key: bytes) -> Pairs:
    key_groups = checkpoint.settings()["key_groups"]
    group = key_group_of(key, key_groups)
    rows = entry_rows(session, checkpoint.folder.address, key_groups, checkpoint.last_committed(), group).orderBy(
        "entry"
    )
    return [(bytes(row.entry), bytes(row.content)) for row in rows.toLocalIterator()]


def _clocks(session: SparkSession, checkpoint: Checkpoint) -> Pairs:
    key_groups = checkpoint.settings()["key_groups"]
    rows = entry_rows(session, checkpoint.folder.address, key_groups, checkpoint.last_committed())
    clock_rows = rows.where(col("entry") == lit(clocks.KEY)).orderBy("grp")
    return [(bytes(row.entry), bytes(row.content)) for row in clock_rows.collect()]
