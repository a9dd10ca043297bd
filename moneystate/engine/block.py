"""Blocks: the data that a source task sends to a key group in one batch.

One row for each (key group, source task), so that Spark moves some hundred rows a batch whatever the number of events.
A block lives for one batch between processes of one program version, so its form is Python's own (`marshal`), not a
promise.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable

from moneystate.engine.items import Item, Mark, Output, UnorderedRecord


class Block:
    """The records of one source task for one key group.

    items: with order times as far as the task's ranges decide them; unordered: records of unordered inputs; passed:
    dead letters, ready to write; marks: of all partitions of the task, the same for each key group; version: of the
    state that the batch is to leave, 0 for the program's own; rewrite: bring all of this key group's entries to that
    version.
    """

    def __init__(self, task: int, tasks: int, drain: bool, marks: list[Mark]) -> None:
        self.task = task
        self.tasks = tasks
        self.drain = drain
        self.marks = marks
        self.items: list[Item] = []
        self.sealed: list[bytes] = []
        self.unordered: list[UnorderedRecord] = []
        self.passed: list[Output] = []
        self.counts: dict[str, int] = {}
        self.version = 0
        self.rewrite = False

    def seal(self) -> None:
        """Pack the items so far: as bytes they take a fraction of the memory, which is then used again."""
        if self.items:
            self.sealed.append(marshal.dumps(self.items))
            self.items = []

    def pack(self) -> bytes:
        self.seal()
        head = (self.task, self.tasks, self.drain, self.version, self.rewrite)
        return marshal.dumps((head, self.marks, self.sealed, self.unordered, self.passed, self.counts))


def unpack(data: bytes) -> Block:
    head, marks, sealed, unordered, passed, counts = marshal.loads(data)
    task, tasks, drain, version, rewrite = head
    block = Block(task, tasks, drain, marks)
    block.version = version
    block.rewrite = rewrite
    for items in sealed:
        block.items.extend(marshal.loads(items))
    block.unordered = unordered
    block.passed = passed
    block.counts = counts
    return block


def merge(blocks: Iterable[bytes]) -> Block:
    """Merges all blocks of a key group in one batch. Raises ValueError if one is missing, which means a broken
    shuffle."""
    parts = sorted([unpack(data) for data in blocks], key=lambda b: b.task)
    first = parts[0]
    if [b.task for b in parts] != list(range(first.tasks)):
        raise ValueError(f"blocks of tasks {[b.task for b in parts]} came, expected 0 to {first.tasks - 1}")
    whole = Block(0, 1, first.drain, [])
    whole.version = first.version
    whole.rewrite = first.rewrite
    for part in parts:
        whole.marks.extend(part.marks)
        whole.items.extend(part.items)
        whole.unordered.extend(part.unordered)
        whole.passed.extend(part.passed)
        for name, n in part.counts.items():
            whole.counts[name] = whole.counts.get(name, 0) + n
    return whole
