"""One run of a service over a log in memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from moneystate.api.decoder import ServiceDecoder
from moneystate.api.entry_view import EntryView
from moneystate.api.handles import Output
from moneystate.api.plan import Plan
from moneystate.api.platform_records import Heartbeat
from moneystate.api.runtime import ServiceProcessor, Work
from moneystate.engine.deadletter import PREFIX
from moneystate.engine.effects import Effects
from moneystate.engine.items import Item, UnorderedRecord
from moneystate.engine.keys import is_engines
from moneystate.engine.processor import Change
from moneystate.engine.state import StateAccess
from moneystate.testing.simulation import Input, Simulation


class Crash:
    """In a log: see `CRASH`."""


CRASH = Crash()


class Sent(NamedTuple):
    topic: int
    partition: int
    offset: int
    value: bytes


class Caused(NamedTuple):
    """An output with its place: the item that caused it and which of its outputs it is."""

    item: Item
    number: int
    stream: int
    key: bytes | None
    value: bytes | None


class Recorder:
    """A processor that notes which item caused which output."""

    def __init__(self, inner: ServiceProcessor, caused: list[Caused]) -> None:
        self.inner = inner
        self.caused = caused

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Work | None]:
        return self.inner.begin(state, items, unordered, watermark_before)

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None:
        before = len(effects.outputs)
        self.inner.process_unordered(record, effects)
        self._note((0, 0, 0, record[0], record[1], record[2], 0, record[3], record[4]), before, effects)

    def step(self, item: Item, parsed: Work | None, effects: Effects) -> None:
        before = len(effects.outputs)
        self.inner.step(item, parsed, effects)
        self._note(item, before, effects)

    def _note(self, item: Item, before: int, effects: Effects) -> None:
        for number, (stream, key, value, _) in enumerate(effects.outputs[before:]):
            self.caused.append(Caused(item, number, stream, key, value))

    def finish(self, effects: Effects) -> list[Change]:
        return self.inner.finish(effects)

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]], version: int) -> list[Change]:
        return self.inner.rewrite(entries, version)


class Run:
    def __init__(self, plan: Plan, bound_ms: int, partitions: int, key_groups: int, dead_letter_errors: bool) -> None:
        self.plan = plan
        topics = plan.input_topics()
        self.partitions = [(t.code, n) for t in topics if t.ordered for n in range(partitions)]
        every = [(t.code, n) for t in topics for n in range(partitions)]
        self.caused: list[Caused] = []
        self.order: dict[tuple[str, int, int], int] = {}
        self.sim = Simulation(
            ServiceDecoder(plan), topics, every, self._processor, bound_ms, key_groups=key_groups,
            dead_letter_stream=plan.dead_letter_stream,
        )  # fmt: skip
        self.dead_letter_errors = dead_letter_errors

    def _processor(self) -> Recorder:
        return Recorder(ServiceProcessor(self.plan, self.dead_letter_errors), self.caused)

    def heartbeat(self, time_ms: int) -> bytes:
        return self.plan.heartbeat.encode(Heartbeat(time_ms))

    def batch(self, log: list[Sent | Crash], drain: bool = False) -> None:
        records = []
        for sent in log:
            if isinstance(sent, Sent):
                self.order[self.plan.topics[sent.topic], sent.partition, sent.offset] = len(self.order)
                records.append(Input(sent.topic, sent.partition, sent.offset, -1, None, sent.value, []))
        if any(isinstance(sent, Crash) for sent in log):
            self._lose(records, drain)
        self.sim.batch(records, drain)

    def _lose(self, records: list[Input], drain: bool) -> None:
        """Run the batch and throw it away, as a process does that ends before it has written."""
        sim = copy.copy(self.sim)
        sim.states = copy.deepcopy(self.sim.states)
        sim.outputs, sim.changes = [], []
        caused, self.caused[:] = list(self.caused), []
        sim.batch(records, drain)
        self.caused[:] = caused

    # What came out

    def out(self, output: Output[Any]) -> list[Any]:
        plan = self.plan.outputs[output]
        mine = sorted(c for c in self.caused if c.stream == plan.stream)
        return [plan.codec.decode(c.value or b"") for c in mine]

    def dead_letters(self) -> list[str]:
        letters = []
        for stream, _, _, headers in self.sim.outputs:
            if stream == self.plan.dead_letter_stream:
                about = {name.removeprefix(PREFIX): (content or b"").decode() for name, content in headers}
                place = (about["topic"], int(about["partition"]), int(about["offset"]))
                letters.append((self.order[place], about["reason"]))
        return [reason for _, reason in sorted(letters)]

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

    def check_same(self, other: Run) -> None:
        """Raises AssertionError where another run of the same log gave anything else."""
        for output, plan in self.plan.outputs.items():
            mine, its = self.out(output), other.out(output)
            assert mine == its, f"{plan.output!r} differs with other batches: {_difference(mine, its)}"
        assert self.dead_letters() == other.dead_letters(), "dead letters differ with other batches"
        mine, its = sorted(self.entries()), sorted(other.entries())
        assert mine == its, f"state differs with other batches: {_difference(mine, its)}"


def _difference(mine: list[Any], its: list[Any]) -> str:
    for n, (one, other) in enumerate(zip(mine, its, strict=False)):
        if one != other:
            return f"number {n} is {one!r} in one run, {other!r} in another"
    return f"{len(mine)} in one run, {len(its)} in another"
