"""Savepoints made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moneystate.engine import clock as clocks
from moneystate.engine.clock import Clock
from moneystate.engine.plan import EMPTY, PartitionPlan, Plan, TopicPartition
from moneystate.savepoint.fingerprint import Fingerprint
from moneystate.savepoint.format import begin, finish, write_output, write_state
from moneystate.savepoint.manifest import EXPORT, Manifest
from tests.enrichment.jobs import Rules, enrichment_job

JOB = enrichment_job(Rules())


def plan_at(offsets: dict[TopicPartition, int], ids: dict[str, str]) -> dict[str, Any]:
    return Plan("rules", ids, {tp: PartitionPlan(n, EMPTY) for tp, n in offsets.items()}).to_offset()


def empty_savepoint(out: Path, key_groups: int = 8, with_output: bool = False, **other: Any) -> Path:
    """The state of a job that has had nothing but its first batch. `other`: fields of the manifest that are others."""
    folder = begin(out)
    clock = clocks.encode(Clock())
    fields: dict[str, Any] = {
        "made_by": EXPORT,
        "made_at": "2026-01-01T00:00:00+00:00",
        "job": JOB.name,
        "schemas": [],
        "rules": dict(JOB.rules),
        "key_groups": key_groups,
        "partitions": 2,
        "plan": plan_at({}, {}),
        "watermark": Clock().watermark,
        "counts": {},
        "fingerprint": str(Fingerprint()),
        "state": [write_state(folder, group, [(clocks.KEY, clock)]) for group in range(key_groups)],
        "output": [write_output(folder, group, []) for group in range(key_groups)] if with_output else [],
        "streams": JOB.streams,
    }
    finish(out, Manifest(**{**fields, **other}))
    return out
