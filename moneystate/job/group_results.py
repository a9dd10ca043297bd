"""The results of key groups, on their way from the operator to the sink."""

from __future__ import annotations

import marshal
from typing import NamedTuple

from moneystate.engine.items import EarlyEvent, Output
from moneystate.engine.keygroup import BatchResult
from moneystate.engine.order import Partition
from moneystate.engine.processor import Change
from moneystate.job.figures import GroupFigures


class GroupResult(NamedTuple):
    """A key group's `BatchResult`, as it goes to the sink."""

    key_group: int
    outputs: list[Output]
    changes: list[Change]
    watermark: int
    counts: dict[str, int]
    buffered: int
    silent: list[Partition]
    oldest: int
    holder: list[Partition]
    due: int
    before: int
    behind: int
    highs: dict[Partition, int]  # the same in all key groups, so only key group 0 has them
    early: list[EarlyEvent]
    figures: GroupFigures


class Spilled(NamedTuple):
    """Outputs of a key group that come before those of its `GroupResult`, which follows."""

    outputs: list[Output]


Result = GroupResult | Spilled


def group_result(key_group: int, result: BatchResult, figures: GroupFigures) -> GroupResult:
    r = result
    highs = r.highs if key_group == 0 else {}
    return GroupResult(
        key_group, r.outputs, r.changes, r.watermark, r.counts, r.buffered, r.silent, r.oldest, r.holder, r.due,
        r.before, r.behind, highs, r.early, figures,
    )  # fmt: skip


def pack(result: GroupResult) -> bytes:
    return marshal.dumps((*result[:-1], tuple(result.figures)))


def pack_spilled(outputs: list[Output]) -> bytes:
    return marshal.dumps((outputs,))


def unpack(data: bytes) -> Result:
    packed = marshal.loads(data)
    if len(packed) == 1:
        return Spilled(*packed)
    return GroupResult._make([*packed[:-1], GroupFigures(*packed[-1])])
