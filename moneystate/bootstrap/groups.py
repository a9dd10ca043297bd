"""The second phase: runs one key group through all chunks and writes its files of the savepoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moneystate.bootstrap.shuffle_files import read_shuffle_file, shuffle_path
from moneystate.bootstrap.tables import Tables, with_tables
from moneystate.bootstrap.work import write_json
from moneystate.engine import clock as clocks
from moneystate.engine.block import Block, merge
from moneystate.engine.clock import Clock
from moneystate.engine.failure import StepFailed, step_error
from moneystate.engine.items import NO_TIME, Output
from moneystate.engine.keygroup import run_batch
from moneystate.engine.order import Partition, marks_for
from moneystate.engine.processor import Processor
from moneystate.engine.state import MemoryState
from moneystate.ports.state import Fact, StateModel
from moneystate.savepoint.facts import facts
from moneystate.savepoint.fingerprint import of_facts
from moneystate.savepoint.format import write_output, write_state


@dataclass(frozen=True)
class GroupSpec:
    """The input for computing a key group."""

    work: Path
    chunks: int
    tasks: int
    make: Callable[[], Processor[Any]]
    bounds: dict[int, int]
    state: StateModel  # for the fingerprint
    rules: dict[str, Any]  # for the fingerprint
    highs: dict[Partition, int]  # highest event times of partitions whose history does not start at their beginning
    with_output: bool
    topics: dict[int, str]  # topic names by their number in items, for errors
    watermarks: Mapping[int, int]  # recorded ones, by the chunk after which they are reached
    partitions: list[Partition]  # of all ordered inputs
    tables: Tables | None = None  # whose rows steps of any key read


@dataclass(frozen=True)
class GroupResult:
    """The result of computing a key group."""

    watermark: int
    counts: dict[str, int]
    buffered: int
    silent: list[list[int]]
    keys: int
    facts: dict[str, int]  # number of facts of each kind
    fingerprint: tuple[int, int]  # its two parts
    state: dict[str, Any]
    output: dict[str, Any] | None


def result_path(work: Path, group: int) -> Path:
    return work / "results" / f"group-{group:05d}.json"


def run_group(spec: GroupSpec, group: int) -> None:
    """Writes a key group's files and result, unless an earlier run has written them."""
    if not result_path(spec.work, group).exists():
        write_json(result_path(spec.work, group), asdict(_Run(spec, group).whole()))


class _Run:
    def __init__(self, spec: GroupSpec, group: int) -> None:
        self.spec = spec
        self.group = group
        self.state = MemoryState(_beginning(spec.highs))
        self.watermark = NO_TIME
        self.counts: dict[str, int] = {}
        self.buffered = 0
        self.silent: list[Partition] = []
        self.copies = None if spec.tables is None else spec.tables.copies()

    def whole(self) -> GroupResult:
        folder = self.spec.work / "savepoint"
        output = None
        if self.spec.with_output:
            output = asdict(write_output(folder, self.group, self._outputs()))
        else:
            for _ in self._outputs():
                pass
        entries = sorted(self.state.entries.items())
        written = asdict(write_state(folder, self.group, entries))
        kinds: dict[str, int] = {}
        fingerprint = of_facts(
            _counted(facts(entries, self.spec.state, self.spec.rules, with_clock=self.group == 0), kinds)
        )
        keys = sum(1 for key, _ in entries if self.spec.state.counts_owner(key))
        return GroupResult(
            self.watermark, self.counts, self.buffered, [list(p) for p in self.silent], keys, kinds,
            (fingerprint.keys, fingerprint.buffer), written, output,
        )  # fmt: skip

    def _outputs(self) -> Iterator[Output]:
        """Runs one chunk after the other, with the outputs of one chunk in memory."""
        s = self.spec
        for chunk in range(s.chunks):
            blocks = [read_shuffle_file(shuffle_path(s.work, chunk, task), self.group) for task in range(s.tasks)]
            yield from self._run(merge(blocks))
            if chunk in s.watermarks:
                yield from self._run(Block(0, 1, NO_TIME, marks_for(s.partitions, s.bounds, s.watermarks[chunk])))

    def _run(self, block: Block) -> list[Output]:
        try:
            if self.copies is not None:
                self.copies.advance(block.tables)
            result = run_batch(block, self.state, with_tables(self.spec.make(), self.copies), self.spec.bounds)
        except StepFailed as e:
            raise step_error(e, self.spec.topics) from e
        self.watermark, self.counts, self.buffered = result.watermark, result.counts, result.buffered
        self.silent = result.silent
        return result.outputs


def _beginning(highs: dict[Partition, int]) -> dict[bytes, bytes]:
    """The state before the first record: empty, or a clock with the initial highs."""
    if not highs:
        return {}
    clock = Clock()
    clock.highs = dict(highs)
    return {clocks.KEY: clocks.encode(clock)}


def _counted(group_facts: Iterable[Fact], kinds: dict[str, int]) -> Iterator[Fact]:
    for fact in group_facts:
        kinds[fact.kind] = kinds.get(fact.kind, 0) + 1
        yield fact


def read_result(work: Path, group: int) -> GroupResult:
    fields = json.loads(result_path(work, group).read_text())
    fields["fingerprint"] = tuple(fields["fingerprint"])
    return GroupResult(**fields)
