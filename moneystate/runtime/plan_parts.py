"""The parts of a service's plan that each record needs. Compiled: reading their attributes takes less time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from moneystate.api.fast_path import FastPath
from moneystate.api.handles import Input, Output
from moneystate.records.codec import Codec
from moneystate.records.reading import Key, KeyReader, Time, elsewhere, time_reader
from moneystate.records.scans import Scan
from moneystate.records.shapes import Record
from moneystate.records.types import Header
from moneystate.runtime.cells import Read, RecordKind, TimerKind
from moneystate.runtime.lookup_plan import LookupPlan
from moneystate.runtime.seen_page import SeenKind
from moneystate.runtime.table_plan import TablePlan
from moneystate.runtime.unavailable import KeptRows, UnavailableColumns
from moneystate.runtime.waiting import WaitPlan


class StatePlan:
    """A state that a function receives."""

    def __init__(
        self, kind: RecordKind, is_map: bool, ids_of: Callable[[Any], Any] | None, table: TablePlan | None = None
    ) -> None:
        self.kind = kind
        self.is_map = is_map
        self.table = table  # that it reads; None: it is a value or a map
        self.ids_of = ids_of  # from the event to the ids of the map entries that are read with the batch


class HandlerPlan:
    def __init__(
        self, name: str, function: Callable[..., object], states: list[StatePlan], waits: list[WaitPlan]
    ) -> None:
        self.name = name
        self.function = function
        self.states = states
        self.waits = waits  # rows of tables without which an event waits


class FastPathPlan:
    """A fast path, with what it emits to."""

    def __init__(self, path: FastPath, output: OutputPlan) -> None:
        self.path = path
        self.output = output


class InputPlan:
    def __init__(self, input: Input[Any], code: int, codec: Codec, keys: KeyReader | None, where: str) -> None:
        self.code = code
        self.topic = input.topic
        self.ordered = input.ordered
        self.timed = input.timed
        self.arrival = input.arrival
        self.format = input.format
        self.codec = codec
        self.keys = keys
        self.time: Callable[[Any], int] = (
            elsewhere if input.time is None else time_reader(codec.record, input.time, where)
        )
        self.time_header = input.time.name if isinstance(input.time, Header) else ""
        self.decode = input.decode
        self.fallback = input.fallback
        self.unavailable: UnavailableColumns | None = None
        self.rows: KeptRows | None = None  # where their columns are kept
        self.table = input.table
        self.reads_only_fields = reads_only_fields(codec.record, input.key, input.time)
        self.from_headers = [f for f in codec.record.fields if f.header]
        # then the value is ignored
        self.is_all_headers = bool(self.from_headers) and len(self.from_headers) == len(codec.record.fields)
        self.seen: SeenKind | None = None
        self.seen_id: Callable[[Any], Any] | None = None
        self.handler: HandlerPlan | None = None
        self.fast: FastPathPlan | None = None
        self.lookup: LookupPlan | None = None  # whose replies these are
        self.scan: Scan | None = None  # of records that need not be decoded at the source

    def needs_whole_record(self) -> bool:
        """Whether the value alone is not enough to read a record."""
        is_made = self.decode is not None or self.fallback is not None
        return is_made or self.table is not None or self.needs_headers()

    def needs_headers(self) -> bool:
        """Whether the platform reads a Kafka header of the record. Headers that the service's functions read do not
        count."""
        return self.timed or self.reads_headers()

    def reads_headers(self) -> bool:
        """Whether a field, the time or the key of the record comes from a header."""
        declared = bool(self.time_header or self.from_headers)
        return declared or (self.keys is not None and self.keys.needs_headers)


def reads_only_fields(record: Record, key: Key | None, time: Time | None) -> bool:
    """Whether key and time are plain fields or headers. These are the same before and after the conversion to canonical
    form. A function may see a difference: 1.5 becomes 1.50 if the schema has two places."""
    parts = key if isinstance(key, tuple) else (key, time)
    is_computed = any(callable(part) or (isinstance(part, str) and "." in part) for part in [*parts, time])
    return not is_computed and not hasattr(record.cls, "__post_init__")


class EarlierInput(NamedTuple):
    """An earlier version of an input's records. Some of these may still be buffered."""

    input: InputPlan
    read: Read


class TimerPlan:
    """A timer with its handler."""

    def __init__(self, kind: TimerKind, handler: HandlerPlan, map_kind: RecordKind | None) -> None:
        self.name = kind.name
        self.kind = kind
        self.handler = handler
        self.map_kind = map_kind  # the map of a MapTimer; None: one timer for each key


class OutputPlan:
    def __init__(self, output: Output[Any], stream: int, codec: Codec, keys: KeyReader, where: str) -> None:
        self.output = output
        self.stream = stream
        self.codec = codec
        self.cls = codec.record.cls
        self.keys = keys
        self.record_time: Callable[[Any], int] | None = (
            None if output.record_time is None else time_reader(codec.record, output.record_time, where)
        )
