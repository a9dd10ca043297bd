"""The stateful operator: processes a key group's batch inside `transformWithState`, with Spark's state store."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark import SparkFiles, TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from moneystate.engine.block import Block, merge
from moneystate.engine.effects import Spill
from moneystate.engine.failure import StepFailed, step_error
from moneystate.engine.keygroup import run_batch
from moneystate.engine.log_structured import LogStructuredState
from moneystate.engine.processor import Change, Processor
from moneystate.engine.segments import MANIFEST_KEY
from moneystate.job.collector import no_collection
from moneystate.job.entry_cache import entry_cache
from moneystate.job.figures import GroupFigures
from moneystate.job.group_results import group_result, pack, pack_spilled
from moneystate.job.local_path import is_local
from moneystate.job.result_files import ResultWriter
from moneystate.kafka.source_spec import SourceSpec
from moneystate.savepoint.load import load
from moneystate.spark.state_access import stores_of

if TYPE_CHECKING:
    from moneystate.runtime.table_copies import TableCopies

STATE_NAME = "entries"
ORIGIN_BITS = 62
TOGETHER_BYTES = 4 * 1024 * 1024
KEY_SCHEMA = StructType([StructField("entry", BinaryType(), False)])
VALUE_SCHEMA = StructType([StructField("content", BinaryType(), False)])
RESULT_SCHEMA = StructType([StructField("result", BinaryType(), False)])


class KeyGroupOperator(StatefulProcessor):
    """Runs the key groups of one operator partition.

    Each exchange with the state store makes both sides wait for one another. So a task first gathers the blocks of its
    key groups, up to `TOGETHER_BYTES`, and then reads for all of them, runs them and writes for all of them.
    """

    def __init__(
        self,
        make: Callable[[], Processor[Any]],
        key_groups: int,
        partitions: int,
        bounds: Mapping[int, int],
        initial: str = "",
        topics: Mapping[int, str] = MappingProxyType({}),
        tables: SourceSpec | None = None,
    ) -> None:
        self.run = uuid.uuid4().hex
        self.make = make  # builds the service's processor, once in each Python worker and batch
        self.key_groups = key_groups
        self.partitions = partitions  # of the operator
        self.bounds = dict(bounds)  # as in `run_batch`
        self.initial = initial  # folder of the savepoint that key groups without state begin with; empty: none
        self.topics = dict(topics)  # topic names by their number in items, for errors
        self.tables = tables  # where steps of any key read rows of tables; None: they read none

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.stores = stores_of(handle.getMapState(STATE_NAME, KEY_SCHEMA, VALUE_SCHEMA))
        self.processor = self.make()
        self.copies: TableCopies | None = None
        if self.tables is not None:
            from moneystate.job.table_feed import give_tables  # a job without tables needs none of it

            self.copies = give_tables(self.processor, self.run, self.tables)
        self.gathered: list[tuple[int, Block]] = []
        self.gathered_bytes = 0
        self.first: Block | None = None  # has brought the marks for all key groups
        self.seen = 0
        self.source_ms = 0

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        blocks = []
        for row in rows:
            blocks.append(row.block)
            self.source_ms = max(self.source_ms, row.source_ms)
        self.gathered.append((int(key[0]), self._marked(merge(blocks))))
        self.gathered_bytes += sum(len(block) for block in blocks)
        self.seen += 1
        if self.stores.together and self.gathered_bytes < TOGETHER_BYTES and not self._is_last():
            return
        gathered, self.gathered, self.gathered_bytes = self.gathered, [], 0
        yield from self._run(gathered)

    def _marked(self, block: Block) -> Block:
        """The block with the task's marks. Raises ValueError if they have not come first, which means a broken
        shuffle."""
        if block.marked:
            self.first = block
            if self.copies is not None:
                self.copies.advance(block.tables)
        elif self.first is None:
            raise ValueError("expected the marks with the first key group's block, found none")
        else:
            block.take_marks(self.first)
        return block

    def _is_last(self) -> bool:
        """Whether the task has seen all of its key groups: each has a block in each batch."""
        context = TaskContext.get()
        assert context is not None
        return self.seen == len(range(context.partitionId(), self.key_groups, self.partitions))

    def _run(self, gathered: list[tuple[int, Block]]) -> Iterator[Row]:
        changes: list[tuple[int, list[Change]]] = []
        with no_collection(), ResultWriter() as results:
            self._write(gathered, changes, results)
        yield Row(result=results.row)
        self.stores.apply_to_each(changes)

    def _write(
        self, gathered: list[tuple[int, Block]], changes: list[tuple[int, list[Change]]], results: ResultWriter
    ) -> None:  # fmt: skip
        """Writes the results. Adds the changes of the state store to `changes`, by Spark's key."""
        spill = Spill(lambda outputs: results.add(pack_spilled(outputs)))
        begun = time.monotonic()
        firsts = self.stores.get_of_each([key for key, _ in gathered], MANIFEST_KEY)
        for (key, block), first in zip(gathered, firsts, strict=True):
            group = key % self.key_groups
            store, cache = self.stores.store(key), entry_cache(self.run)
            state = LogStructuredState(store, first, cache, group, secrets.randbits(ORIGIN_BITS))
            if self.initial:
                load(copy_of(self.initial), group, state)
            try:
                result = run_batch(block, state, self.processor, self.bounds, spill)
            except StepFailed as e:
                raise step_error(e, self.topics) from e
            changes.append((key, state.end()))
            now = time.monotonic()
            figures = GroupFigures(self.source_ms, now - begun, state.stored_bytes())
            results.add(pack(group_result(group, result, figures)))
            begun = now

    def close(self) -> None:
        assert not self.gathered, "a key group's blocks are missing"


def copy_of(savepoint: str) -> str:
    """Returns where a savepoint is on this machine: Spark has copied it from a store when this worker began."""
    return savepoint if is_local(savepoint) else SparkFiles.get(savepoint.rpartition("/")[2])
