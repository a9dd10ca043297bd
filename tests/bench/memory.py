"""`python -m tests.bench memory`: the CPU time of services in memory, by turns.

One process runs the source tasks and the operator with its entry cache in RocksDB, without Spark and Kafka. The rest of
a run depends on how much a service writes, so the table shows that, too.
"""

from __future__ import annotations

import argparse
import marshal
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from moneystate.engine.block import merge
from moneystate.engine.intake import Intake, PlannedPartition
from moneystate.engine.items import NO_TIME
from moneystate.engine.keygroup import run_batch
from moneystate.engine.log_structured import LogStructuredState
from moneystate.engine.processor import bounds_of
from moneystate.engine.segments import MANIFEST_KEY
from moneystate.engine.state import MemoryState
from moneystate.job.collector import no_collection
from moneystate.job.entry_cache import RocksEntryCache
from moneystate.job.segment_files import SegmentFiles
from moneystate.kafka.source_spec import load_decoder
from moneystate.ports.service import JobSpec
from moneystate.runtime.job import job_spec
from tests.enrichment.jobs import SERVICE
from tests.workloads.workload_log import workload_log

KEY_GROUPS: Final = 64
TASKS: Final = 2

Record = tuple[str, int, int, int, bytes | None]  # topic, partition, offset, timestamp, value


class Costs(NamedTuple):
    """CPU time in s, and counts."""

    source: float
    operator: float
    outputs: int
    changes: int  # entries, for the changelog
    change_bytes: int

    def plus(self, other: Costs) -> Costs:
        return Costs(
            self.source + other.source,
            self.operator + other.operator,
            self.outputs + other.outputs,
            self.changes + other.changes,
            self.change_bytes + other.change_bytes,
        )


class MemoryJob:
    """A job whose topics are lists, in one process."""

    def __init__(self, spec: JobSpec, records: Sequence[Record], folder: Path) -> None:
        self.spec = spec
        self.processor = spec.make()
        self.decoder = load_decoder(spec.decoder)
        self.codes = {t.name: t.code for t in spec.inputs}
        self.partitions = sorted({(self.codes[r[0]], r[1]) for r in records if r[0] in self.codes})
        self.stores = [MemoryState() for _ in range(KEY_GROUPS)]
        (folder / "segments").mkdir(parents=True)
        self.cache = RocksEntryCache(folder / "cache", SegmentFiles(folder / "segments"))

    def batch(self, records: Sequence[Record]) -> Costs:
        begun = time.process_time()
        with no_collection():
            packed = [self._read(task, records) for task in range(TASKS)]
            read = time.process_time()
            results = [self._run(group, [blocks[group] for blocks in packed]) for group in range(KEY_GROUPS)]
        ran = time.process_time()
        outputs, changes, size = 0, 0, 0
        for result in results:
            _, its_outputs, its_changes, _ = marshal.loads(result)
            outputs += len(its_outputs)
            changes += len(its_changes)
            size += sum(len(key) + len(value or b"") for key, value in its_changes)
        return Costs(read - begun, ran - read, outputs, changes, size)

    def _read(self, task: int, records: Sequence[Record]) -> list[bytes]:
        spec, codes = self.spec, self.codes
        mine = self.partitions[task::TASKS]
        planned = [PlannedPartition(t, p, 1) for t, p in mine]
        intake = Intake(
            self.decoder, spec.inputs, planned, KEY_GROUPS, spec.bound_ms, spec.max_future_ms,
            spec.dead_letter_stream, {}, spec.max_record_bytes,
        )  # fmt: skip
        intake.open(task, TASKS, NO_TIME)
        taken = {*mine}
        for topic, partition, offset, timestamp_ms, value in records:
            if (codes[topic], partition) in taken:
                intake.add(codes[topic], partition, offset, timestamp_ms, value)
        return intake.close()

    def _run(self, group: int, blocks: list[bytes]) -> bytes:
        store = self.stores[group]
        state = LogStructuredState(store, store.entries.get(MANIFEST_KEY), self.cache, group, group + 1)
        result = run_batch(merge(blocks), state, self.processor, bounds_of(self.spec.inputs, self.spec.bound_ms))
        store.apply(state.end())
        return marshal.dumps((group, result.outputs, result.changes, result.counts))


def records_of(events: int, users: int, seed: int) -> list[Record]:
    log, _ = workload_log("--events", str(events), "--users", str(users), "--seed", str(seed), "--flush-marker")
    return [(r.topic, r.partition, r.offset, r.timestamp_ms or -1, r.value) for r in log]


def run(name: str, records: Sequence[Record], batch: int) -> Costs:
    folder = Path(tempfile.mkdtemp(prefix="bench-memory-"))
    try:
        job = MemoryJob(job_spec(name, {}), records, folder)
        total = Costs(0.0, 0.0, 0, 0, 0)
        for start in range(0, len(records), batch):
            total = total.plus(job.batch(records[start : start + batch]))
        return total
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="money events")
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=50_000, help="records")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--runs", type=int, default=3, help="of each, by turns; the least counts")
    parser.add_argument("--service", action="append", default=[], help=f"may be repeated; without it, {SERVICE}")
    a = parser.parse_args(arguments)
    records = records_of(a.events, a.users, a.seed)
    names = a.service or [SERVICE]
    runs: dict[str, list[Costs]] = {name: [] for name in names}
    for _ in range(a.runs):
        for name in names:
            runs[name].append(run(name, records, a.batch))
    table = Table("a money event", "source us", "operator us", "both", "to the first", "outputs", "changes", "bytes")
    first = 0.0
    for name, costs in runs.items():
        source, operator = min(c.source for c in costs), min(c.operator for c in costs)
        both = (source + operator) / a.events * 1e6
        first = first or both
        parts = [f"{part / a.events * 1e6:.2f}" for part in (source, operator)]
        some = costs[0]
        each = [f"{n / a.events:.3f}" for n in (some.outputs, some.changes, some.change_bytes)]
        table.add_row(name, *parts, f"{both:.2f}", f"{first / both:.2f}", *each)
    Console(width=140).print(table)
