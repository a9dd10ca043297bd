"""The end-of-batch record, which closes an output partition's transaction in each changelog partition that it writes
to.

    version 1   batch, epoch, watermark, keyGroups; later also groups and records
    version 2   also partitions: of the changelog; the writer chooses a key group's partition by their number;
                and rules: those that readers of the state need to know, by name

JSON with sorted keys. A program of version 1 can read version 2 and ignores unknown members.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moneystate.engine.items import NO_TIME
from moneystate.engine.json_object import read_object

VERSION: Final = 2


@dataclass(frozen=True)
class EndOfBatch:
    """An end-of-batch record. None in a field: its writer does not say."""

    epoch: str
    batch: int
    watermark_ms: int
    key_groups: Sequence[int]  # those of the output partition whose changes are in this changelog partition
    total: int | None  # key groups of the job
    records: int | None  # number of changes of these key groups
    partitions: int | None  # of the changelog
    rules: Mapping[str, Any]

    def encode(self) -> bytes:
        fields = {
            "batch": self.batch,
            "epoch": self.epoch,
            "groups": self.total,
            "keyGroups": list(self.key_groups),
            "partitions": self.partitions,
            "records": self.records,
            "rules": dict(self.rules),
            "version": VERSION,
            "watermark": self.watermark_ms,
        }
        return json.dumps(fields, sort_keys=True).encode()


def decode(value: bytes) -> EndOfBatch:
    """Decodes a record of any version. Raises ValueError, KeyError or TypeError for anything else."""
    fields = read_object(value)
    epoch, rules = fields["epoch"], fields.get("rules", {})
    if type(epoch) is not str or type(rules) is not dict:
        raise TypeError("expected a text as epoch, and an object as rules")
    return EndOfBatch(
        epoch,
        _whole(fields["batch"], -1),
        _whole(fields["watermark"], NO_TIME),
        tuple([_whole(group, 0) for group in fields["keyGroups"]]),
        _whole_or_none(fields.get("groups"), 1),
        _whole_or_none(fields.get("records"), 0),
        _whole_or_none(fields.get("partitions"), 1),
        rules,
    )


def _whole(value: Any, at_least: int) -> int:
    if type(value) is not int or not at_least <= value < 1 << 63:
        raise ValueError(f"expected a whole number from {at_least} on")
    return value


def _whole_or_none(value: Any, at_least: int) -> int | None:
    return None if value is None else _whole(value, at_least)
