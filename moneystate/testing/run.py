"""One run of a service over a log in memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from moneystate.api.handles import Output
from moneystate.engine.avro import HEADER_BYTES
from moneystate.engine.deadletter import PREFIX, Letter, Place, place_of_step, restored
from moneystate.engine.effects import Effects
from moneystate.engine.items import CLEANUP_RANK, NO_TIME, RANK, TABLE_RANK, TIME, Header, Item, UnorderedRecord
from moneystate.engine.keys import is_engines
from moneystate.engine.order import Partition
from moneystate.engine.place import cause_of, time_bytes
from moneystate.engine.processor import Change, Decoded, Read
from moneystate.engine.state import StateAccess
from moneystate.records.platform_records import Heartbeat
from moneystate.runtime.cells import Cell, RecordKind
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.entry_view import EntryView
from moneystate.runtime.json_topic import AVRO
from moneystate.runtime.plan import Plan
from moneystate.runtime.processor import ServiceProcessor
from moneystate.runtime.table_copies import TableCopies, TableRange
from moneystate.runtime.work import Work
from moneystate.testing.forms import difference_of_cell, difference_of_record, exact_form
from moneystate.testing.simulation import Input, Simulation


class Crash:
    """The type of `CRASH`, an entry of a log (see `moneystate.testing.Bench.send`)."""


CRASH = Crash()


class Advance(NamedTuple):
    """An entry of a log at which a batch ends: the broker's clock has reached `clock_ms`."""

    clock_ms: int


class Whole(NamedTuple):
    """A complete Kafka record."""

    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]
    timestamp_ms: int
    raw: bool  # the value has the topic's format, not canonical form


class Sent(NamedTuple):
    """A record in a bench's log."""

    topic: int
    partition: int
    offset: int
    value: bytes
    whole: Whole | None = None  # only if more than the value matters

    def record(self) -> Input:
        if self.whole is None:
            return Input(self.topic, self.partition, self.offset, -1, None, self.value, [])
        key, value, headers, timestamp_ms, _ = self.whole
        place = (self.topic, self.partition, self.offset)
        return Input(*place, timestamp_ms, key, value, [*headers.items()], whole=True)


Entry = Sent | Crash | Advance


class Caused(NamedTuple):
    """An output with its cause."""

    item: Item  # whose step wrote it
    number: int  # among the outputs of the same step
    stream: int
    key: bytes | None
    value: bytes | None


class Recorder:
    """A processor that records which item caused which output. It also checks that nothing depends on whether a record
    stays in memory or is encoded and decoded."""

    def __init__(self, inner: ServiceProcessor, caused: list[Caused], differences: list[str]) -> None:
        self.inner = inner
        self.caused = caused
        self.differences = differences  # between a record in memory and one that is read again
        inner.changes.on_settled = self._check
        self.begun = inner.lookups.begun = []  # where the outputs of replies' steps begin, with the replies
        self.codecs = {(o.stream, o.codec.header): o.codec for o in inner.plan.outputs.values()}

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Work | None]:
        return self.inner.begin(state, items, unordered, watermark_before)

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None:
        before = self._before(effects)
        self.inner.process_unordered(record, effects)
        topic, partition, offset, key, value = record
        self._note_step((0, 0, 0, topic, partition, offset, 0, key, value), before, effects)

    def step(self, item: Item, parsed: Work | None, effects: Effects) -> None:
        before = self._before(effects)
        self.inner.step(item, parsed, effects)
        self._note_step(item, before, effects)

    def _before(self, effects: Effects) -> int:
        self.begun.clear()
        return len(effects.outputs)

    def _note_step(self, item: Item, before: int, effects: Effects) -> None:
        """Notes the outputs of a step, then those of the steps of replies after it. These come after all events of
        their time, whether or not the reply was in the log before its request."""
        ends = [*[position for position, _ in self.begun], len(effects.outputs)]
        self._note(item, before, ends[0], effects)
        for (position, reply), end in zip(self.begun, ends[1:], strict=True):
            time, _, _, topic, partition, offset, _, key, value = reply
            self._note((time, CLEANUP_RANK, 0, topic, partition, offset, time, key, value), position, end, effects)

    def _note(self, item: Item, before: int, end: int, effects: Effects) -> None:
        for number, (stream, key, value, _) in enumerate(effects.outputs[before:end]):
            self.caused.append(Caused(item, number, stream, key, value))
            codec = None if value is None else self.codecs.get((stream, value[:HEADER_BYTES]))
            if codec is not None and value is not None:
                self.differences += difference_of_record(f"output {self.inner.plan.streams[stream]!r}", codec, value)

    def _check(self, cell: Cell) -> None:
        self.differences += difference_of_cell(cell)

    def finish(self, effects: Effects) -> list[Change]:
        for cell in self.inner.cells.cells:
            if cell.decoded and isinstance(cell.kind, RecordKind):
                self._check(cell)
        return self.inner.finish(effects)

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]]) -> list[Change]:
        return self.inner.rewrite(entries)


class Run:
    """A run of one service in memory. `partitions`: how many partitions each topic has, by the topic's code."""

    def __init__(
        self, plan: Plan, bound_ms: int, partitions: Mapping[int, int], key_groups: int, dead_letter_errors: bool
    ) -> None:
        self.plan = plan
        topics = plan.input_topics()
        every = [(t.code, n) for t in topics for n in range(partitions[t.code])]
        read = {t.name: t.code for t in topics}  # the state may have more topics
        self.arrivals = {t.code for t in topics if t.arrival}
        self.clock_ms = NO_TIME  # of the last `Advance`: nothing earlier arrives after it
        self.caused: list[Caused] = []  # all outputs
        self.differences: list[str] = []  # see `Recorder`
        self.order: dict[tuple[str, int, int], int] = {}  # by topic, partition, offset: the record's place in the log
        decoder = ServiceDecoder(plan, dead_letter_errors)
        formats = {declared.topic: declared.format for declared in plan.service.inputs}
        self.raw = {code: decoder.reader(code, formats[topic], None) for topic, code in read.items()}
        self.canonical = {code: decoder.reader(code, AVRO, None, functions=False) for code in read.values()}
        self.copies = TableCopies(decoder, formats, {}, self._rows, 0)
        self.table_log: dict[Partition, list[Letter]] = {}  # all records of tables
        self.originals: dict[Place, Whole] = {}  # those records, by topic, partition and offset
        self.sent_raw: set[tuple[int, int, int]] = set()  # topic code, partition, offset of records in their format
        self.sim = Simulation(
            decoder, topics, every, self._processor, bound_ms, key_groups=key_groups,
            dead_letter_stream=plan.dead_letter_stream, reads={code: self._read(code) for code in read.values()},
        )  # fmt: skip
        self.sim.on_tables = self.copies.advance
        self.dead_letter_errors = dead_letter_errors

    def _rows(self, ranges: Sequence[TableRange]) -> Iterator[tuple[Partition, Letter]]:
        """`moneystate.runtime.table_copies.Feed`."""
        for code, partition, start, end in ranges:
            for letter in self.table_log.get((code, partition), []):
                if start <= letter.offset < end:
                    yield (code, partition), letter

    def _read(self, code: int) -> Read:
        def read(record: Letter) -> Decoded | None:
            is_raw = (code, record.partition, record.offset) in self.sent_raw
            return (self.raw if is_raw else self.canonical)[code](record)

        return read

    def time_and_key(self, topic: int, whole: Whole) -> tuple[int | None, bytes]:
        """The event time and a key of a record, before it is processed. The bench needs them to place the record."""
        record = Letter("", 0, 0, whole.timestamp_ms, whole.key, whole.value, [*whole.headers.items()])
        try:
            decoded = (self.raw if whole.raw else self.canonical)[topic](record)
        except Exception:  # the batch reports the error
            decoded = None
        if decoded is None:
            return None, whole.key or b""
        _, time, keys = decoded
        time = whole.timestamp_ms if topic in self.arrivals else time
        first = keys[0] if isinstance(keys, list) and keys else keys
        return time, first if isinstance(first, bytes) else b""

    def _processor(self) -> Recorder:
        processor = ServiceProcessor(self.plan, self.dead_letter_errors)
        processor.use_tables(self.copies)
        return Recorder(processor, self.caused, self.differences)

    def heartbeat(self, time_ms: int) -> bytes:
        return self.plan.heartbeat.encode(Heartbeat(time_ms))

    def batch(self, log: Sequence[Entry], drain: bool = False, until_ms: int | None = None) -> None:
        records = []
        self.clock_ms = max([self.clock_ms, *(entry.clock_ms for entry in log if isinstance(entry, Advance))])
        clocks = {place: self.clock_ms for place in self.sim.partitions if place[0] in self.arrivals}
        for sent in log:
            if isinstance(sent, Sent):
                self.order[self.plan.topics[sent.topic], sent.partition, sent.offset] = len(self.order)
                if sent.whole is not None and sent.whole.raw:
                    self.sent_raw.add((sent.topic, sent.partition, sent.offset))
                    self.originals[self.plan.topics[sent.topic], sent.partition, sent.offset] = sent.whole
                records.append(sent.record())
                if sent.topic in self.plan.table_of:
                    self._note_row(sent)
        if any(isinstance(sent, Crash) for sent in log):
            self._lose(records, drain, clocks, until_ms)
        written = len(self.sim.outputs)
        self.sim.batch(records, drain, clocks=clocks, drain_until_ms=until_ms)
        self._restore_letters(written)
        assert not self.differences, f"a step gets another record in other batches: {self.differences[0]}"

    def _note_row(self, sent: Sent) -> None:
        """A process that begins again reads the table from its beginning."""
        assert sent.whole is not None
        key, value, headers, timestamp_ms, _ = sent.whole
        place = (self.plan.topics[sent.topic], sent.partition, sent.offset)
        letter = Letter(*place, timestamp_ms, key, value, [*headers.items()])
        self.table_log.setdefault((sent.topic, sent.partition), []).append(letter)

    def _restore_letters(self, first: int) -> None:
        """Gives the dead letters of steps their original records, as the sink does. `first`: of the outputs."""
        outputs = self.sim.outputs
        for n in range(first, len(outputs)):
            stream, _, _, headers = outputs[n]
            place = place_of_step(headers) if stream == self.plan.dead_letter_stream else None
            if place is not None and place in self.originals:
                sent = self.originals[place]
                letter = Letter(*place, sent.timestamp_ms, sent.key, sent.value, [*sent.headers.items()])
                outputs[n] = (stream, *restored(headers, letter))

    def _lose(
        self, records: list[Input], drain: bool, clocks: Mapping[Partition, int], until_ms: int | None = None
    ) -> None:
        """Runs the batch and discards the result, as if the process had ended before writing."""
        sim = copy.copy(self.sim)
        sim.states = copy.deepcopy(self.sim.states)
        sim.outputs, sim.changes = [], []
        caused, self.caused[:] = list(self.caused), []
        sim.batch(records, drain, clocks=clocks, drain_until_ms=until_ms)
        self.caused[:] = caused
        self.copies.forget()

    # Output

    def written(self, topic: str) -> list[tuple[int, bytes | None, bytes | None, list[Header]]]:
        """Key group, key, value and headers of the records that the last batch wrote to a topic."""
        stream = self.plan.streams.index(topic)
        return [
            (group, key, value, headers)
            for group, outputs in enumerate(self.sim.last)
            for to, key, value, headers in outputs
            if to == stream
        ]

    def keyed(self, *outputs: Output[Any]) -> list[tuple[str, Any]]:
        """Keys and records of outputs, in the order of their causes. A record is None if its key was removed."""
        plans = [self.plan.outputs[output] for output in outputs]
        codecs = {(plan.stream, plan.codec.header): plan.codec for plan in plans}
        streams = {plan.stream for plan in plans}
        decoded: list[tuple[str, Any]] = []
        for caused in sorted([c for c in self.caused if c.stream in streams], key=_place):
            key = (caused.key or b"").decode()
            if caused.value is None:
                decoded.append((key, None))
                continue
            codec = codecs.get((caused.stream, caused.value[:HEADER_BYTES]))
            if codec is not None:
                decoded.append((key, codec.decode(caused.value)))
        return decoded

    def dead_letters(self) -> list[str]:
        return [reason for reason, _ in self.letters()]

    def letters(self) -> list[tuple[str, str]]:
        """Reasons and details of the dead letters, in the order of their records."""
        letters = []
        for stream, _, _, headers in self.sim.outputs:
            if stream == self.plan.dead_letter_stream:
                about = {
                    name.removeprefix(PREFIX): (content or b"").decode()
                    for name, content in headers
                    if name.startswith(PREFIX)
                }
                place = (about["topic"], int(about["partition"]), int(about["offset"]))
                letters.append((self.order[place], about["reason"], about.get("detail", "")))
        return [(reason, detail) for _, reason, detail in sorted(letters)]

    def count(self, name: str) -> int:
        return self.sim.counts.get(name, 0)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        for state in self.sim.states:
            for key, value in state.entries.items():
                if not is_engines(key):
                    yield key, value

    def get(self, key: bytes) -> bytes | None:
        return next((state.entries[key] for state in self.sim.states if key in state.entries), None)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return (entry for entry in self.entries() if entry[0].startswith(prefix))

    def view(self) -> EntryView:
        return EntryView(self.plan, self, self.sim.watermark)

    def check_indices(self) -> None:
        """Runs the indices' functions. Raises their errors, and ServiceError for values that an index cannot have."""
        everything: Any = self.view().range
        for index in self.plan.service.indices.values():
            list(everything(index))

    def check_same(self, other: Run) -> None:
        """Raises AssertionError if another run of the same log gave other results."""
        for topic in self.plan.streams:
            if self._bytes_of(topic) == other._bytes_of(topic):
                continue
            outputs = [output for output in self.plan.outputs if output.topic == topic]
            own, others = exact_form(self.keyed(*outputs)), exact_form(other.keyed(*outputs))
            raise AssertionError(f"output {topic!r} differs with other batches: {_difference(own[1], others[1])}")
        letters, other_letters = self.dead_letters(), other.dead_letters()
        if any(i.timed for i in self.plan.service.inputs):  # then the order of the log depends on the writer's batches
            letters, other_letters = sorted(letters), sorted(other_letters)
        assert letters == other_letters, "dead letters differ with other batches"
        entries, other_entries = sorted(self.entries()), sorted(other.entries())
        assert entries == other_entries, f"state differs with other batches: {_difference(entries, other_entries)}"
        counts, other_counts = self.sim.counts, other.sim.counts
        assert counts == other_counts, (
            f"counts differ with other batches: {counts} in one run, {other_counts} in another"
        )

    def _bytes_of(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values of an output, in the order of their causes."""
        stream = self.plan.streams.index(topic)
        return [(c.key, c.value) for c in sorted([c for c in self.caused if c.stream == stream], key=_place)]


def _place(caused: Caused) -> tuple[bytes, bool, bytes, int]:
    """What rows of tables cause comes before all else of the same time."""
    item = caused.item
    is_row = item[RANK] == TABLE_RANK
    return time_bytes(item[TIME]), not is_row, cause_of((item[TIME], 0, *item[2:]) if is_row else item), caused.number


def _difference(own: list[Any], others: list[Any]) -> str:
    for n, (one, other) in enumerate(zip(own, others, strict=False)):
        if one != other:
            return f"number {n} is {one!r} in one run, {other!r} in another"
    return f"{len(own)} in one run, {len(others)} in another"
