"""The stateful operator: a key group's batch inside `transformWithState`, in Spark's state store."""

from __future__ import annotations

import marshal
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from services.engine.block import merge
from services.engine.items import Output
from services.engine.keygroup import BatchResult, run_batch
from services.engine.logged import LoggedState
from services.engine.order import Partition
from services.engine.plan import STATE_VERSION
from services.engine.processor import Change, Processor
from services.savepoint.load import load
from services.spark.entry_cache import entry_cache
from services.spark.state_access import access_to

STATE_NAME = "entries"
KEY_SCHEMA = StructType([StructField("entry", BinaryType(), False)])
VALUE_SCHEMA = StructType([StructField("content", BinaryType(), False)])
RESULT_SCHEMA = StructType([StructField("result", BinaryType(), False)])


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


class KeyGroupOperator(StatefulProcessor):
    """`make`: builds the service's processor, once in each Python worker and batch; `initial`: folder of a savepoint
    that key groups without state begin with, empty for none."""

    def __init__(
        self, make: Callable[[], Processor[Any]], key_groups: int, bound_ms: int, pipelined: bool, initial: str = ""
    ) -> None:
        self.run = uuid.uuid4().hex
        self.make = make
        self.key_groups = key_groups
        self.bound_ms = bound_ms
        self.pipelined = pipelined
        self.initial = initial

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.entries = handle.getMapState(STATE_NAME, KEY_SCHEMA, VALUE_SCHEMA)
        self.processor = self.make()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        block = merge([row.block for row in rows])
        group = int(key[0]) % self.key_groups
        state = LoggedState(access_to(self.entries, self.pipelined), entry_cache(self.run), group)
        if self.initial:
            load(self.initial, group, state)
        result = run_batch(block, state, self.processor, self.bound_ms)
        state.save(block.version or STATE_VERSION)
        yield Row(result=pack(group, result))

    def close(self) -> None:
        pass


def pack(key_group: int, result: BatchResult) -> bytes:
    r = result
    packed = (key_group, r.outputs, r.changes, r.watermark, r.counts, r.buffered, r.silent, r.oldest)
    return marshal.dumps(packed)


def unpack(data: bytes) -> GroupResult:
    return GroupResult(*marshal.loads(data))
