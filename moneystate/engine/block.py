"""Blocks: the data that a source task sends to a key group in one batch.

There is one row for each (key group, source task), so Spark moves a few hundred rows per batch, however many events
there are. A block is only passed between processes of one program version within one batch. So it is encoded with
Python's `marshal`, and its format may change.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from typing import NamedTuple

from moneystate.engine.items import EarlyEvent, Item, Mark, Output, UnorderedRecord


class TableEnd(NamedTuple):
    """Describes how far a batch reads a partition of a table that all key groups read."""

    topic: int
    partition: int  # in the order
    end: int
    loaded: int  # as in `PlannedPartition`


class Block:
    """The records of one source task for one key group."""

    def __init__(self, task: int, tasks: int, drain_to: int, marks: list[Mark]) -> None:
        self.task = task
        self.tasks = tasks
        self.drain_to = drain_to  # as in `order.advance`
        self.marks = marks  # of all partitions of the task, the same for each key group
        self.tables: list[TableEnd] = []  # of all partitions of the task; they come with the marks
        self.marked = True  # False: another key group's block has brought the marks (`pack`)
        self.items: list[Item] = []  # with order times as far as the task's ranges determine them
        self.sealed: list[bytes] = []
        self.unordered: list[UnorderedRecord] = []
        self.passed: list[Output] = []  # dead letters, ready to write
        self.counts: dict[str, int] = {}
        self.early: list[EarlyEvent] = []  # the task's first one of each topic
        self.rewrite = False  # rewrite all entries of the key group that have an earlier schema

    def take_marks(self, first: Block) -> None:
        """Takes what another key group's block has brought for all."""
        self.marks = first.marks
        self.tables = first.tables

    def seal(self) -> None:
        """Packs the items collected so far. As bytes they take a fraction of the memory."""
        if self.items:
            self.sealed.append(marshal.dumps(self.items))
            self.items = []

    def pack(self, marked: bool = True) -> bytes:
        """`marked`: with the marks. A process that takes several key groups needs them once."""
        self.seal()
        head = (self.task, self.tasks, self.drain_to, self.rewrite)
        marks = (self.marks, [tuple(end) for end in self.tables]) if marked else None
        return marshal.dumps((head, marks, self.sealed, self.unordered, self.passed, self.counts, self.early))


def unpack(data: bytes) -> Block:
    head, marks, sealed, unordered, passed, counts, early = marshal.loads(data)
    task, tasks, drain_to, rewrite = head
    block = Block(task, tasks, drain_to, [] if marks is None else marks[0])
    block.tables = [] if marks is None else [TableEnd(*end) for end in marks[1]]
    block.marked = marks is not None
    block.rewrite = rewrite
    for items in sealed:
        block.items.extend(marshal.loads(items))
    block.unordered = unordered
    block.passed = passed
    block.counts = counts
    block.early = early
    return block


def merge(blocks: Iterable[bytes]) -> Block:
    """Merges all blocks of a key group in one batch. Raises ValueError if one is missing, which means a broken
    shuffle."""
    parts = sorted([unpack(data) for data in blocks], key=lambda b: b.task)
    first = parts[0]
    if [b.task for b in parts] != list(range(first.tasks)):
        raise ValueError(f"expected blocks of the tasks 0 to {first.tasks - 1}, found {[b.task for b in parts]}")
    merged = Block(0, 1, first.drain_to, [])
    merged.marked = all(part.marked for part in parts)
    merged.rewrite = first.rewrite
    for part in parts:
        merged.marks.extend(part.marks)
        merged.tables.extend(part.tables)
        merged.items.extend(part.items)
        merged.unordered.extend(part.unordered)
        merged.passed.extend(part.passed)
        merged.early.extend(part.early)
        for name, n in part.counts.items():
            merged.counts[name] = merged.counts.get(name, 0) + n
    return merged
