"""Blocks: what source tasks hand to a key group."""

from __future__ import annotations

import pytest

from moneystate.engine.block import Block, merge, unpack
from moneystate.engine.items import END_OF_TIME, NO_TIME, Item, Mark

MARK: Mark = (1, 2, 3_000, 1, 4_000)
ITEM: Item = (5, 1, 0, 1, 2, 7, 5, b"key", b"\x00value")


def block(task: int, tasks: int, marks: list[Mark] | None = None) -> Block:
    return Block(task, tasks, NO_TIME, marks or [])


def test_a_block_survives_packing() -> None:
    full = block(1, 3, [MARK, (1, 3, NO_TIME, 0, NO_TIME)])
    full.items.append(ITEM)
    full.unordered.append((0, 0, 4, b"k", b"v"))
    full.passed.append((2, None, b"v", [("h", None), ("i", b"x")]))
    full.counts["dead_letters.malformed"] = 1
    full.seal()
    full.items.append((6, *ITEM[1:]))
    back = unpack(full.pack())
    assert back.items == [ITEM, (6, *ITEM[1:])]
    assert vars_of(back) == vars_of(full)


def vars_of(b: Block) -> tuple[object, ...]:
    return (b.task, b.tasks, b.drain_to, b.marks, b.unordered, b.passed, b.counts)


def test_blocks_are_merged_in_the_order_of_their_tasks_however_they_come() -> None:
    parts = [block(task, 3, [(1, task, 0, 1, NO_TIME)]) for task in (2, 0, 1)]
    for part in parts:
        part.counts["n"] = part.task + 1
    whole = merge([part.pack() for part in parts])
    assert [mark[1] for mark in whole.marks] == [0, 1, 2]
    assert whole.counts == {"n": 6}


@pytest.mark.parametrize("tasks", [[0], [0, 2], [1, 2], [0, 0, 1], [0, 1, 2, 2]])
def test_a_missing_or_doubled_task_is_refused(tasks: list[int]) -> None:
    with pytest.raises(ValueError, match="expected blocks of the tasks 0 to 2"):
        merge([block(task, 3).pack() for task in tasks])


def test_a_drain_is_every_tasks_drain() -> None:
    assert merge([Block(task, 2, END_OF_TIME, []).pack() for task in (0, 1)]).drain_to == END_OF_TIME


def test_marks_are_left_out_where_another_block_brings_them_and_nobody_takes_them_for_none() -> None:
    marked, unmarked = (block(0, 1, [MARK]).pack(marked) for marked in (True, False))
    assert len(unmarked) < len(marked)
    assert (merge([marked]).marks, merge([marked]).marked) == ([MARK], True)
    assert not merge([unmarked]).marked
    assert not merge([block(0, 2, [MARK]).pack(), block(1, 2, [MARK]).pack(marked=False)]).marked
    assert merge([block(0, 1).pack()]).marked  # a task without partitions has no marks
