"""The bootstrap: a batch job on Spark that runs a history through the engine into a savepoint.

1. *inspect*: checks names, notes, offsets and topics, and reads every archive file once. It writes nothing and reports
   errors.
2. *read*: each source task reads its partitions, chunk by chunk, through the live job's intake into shuffle files.
3. *run*: each key group runs its blocks in the order of the chunks, with the live job's `run_batch` and its state in
   memory. Then its entries and outputs are written.
4. *publish*: renames the savepoint to its final name.

The work folder keeps the finished parts of 2 and 3. The same command resumes there, up to the same cut.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from moneystate.bootstrap import work as works
from moneystate.bootstrap.archive_folder import fetch
from moneystate.bootstrap.chunks import cut_at
from moneystate.bootstrap.groups import GroupResult, GroupSpec, read_result, result_path, run_group
from moneystate.bootstrap.history import History, check_unchanged
from moneystate.bootstrap.options import BootstrapOptions
from moneystate.bootstrap.reading import ReadUnit, read_unit
from moneystate.bootstrap.shuffle_files import shuffle_path
from moneystate.bootstrap.sources import Sources, initial_highs
from moneystate.bootstrap.tables import Tables, first_loads, load_first
from moneystate.bootstrap.tasks import InProcess, SparkTasks, Tasks, own_session
from moneystate.bootstrap.work import BootstrapPlan
from moneystate.engine import plan as plans
from moneystate.engine.inputs import Inputs, place_text
from moneystate.engine.plan import TopicPartition
from moneystate.kafka.source_spec import SourceSpec
from moneystate.kafka.starting import is_file
from moneystate.ports.service import JobSpec
from moneystate.savepoint.fingerprint import Fingerprint
from moneystate.savepoint.format import Savepoint, check_free
from moneystate.savepoint.format import partial as partial_folder
from moneystate.savepoint.manifest import BOOTSTRAP, FileInfo, Manifest
from moneystate.savepoint.manifest import NAME as MANIFEST

INSPECTING, READING, RUNNING = "inspecting files", "reading records", "running key groups"


@dataclass(frozen=True)
class Progress:
    """`done` of `total` files, records or key groups, depending on the phase."""

    phase: str
    done: int
    total: int


@dataclass(frozen=True)
class Prepared:
    """A complete savepoint, still in the work folder."""

    savepoint: Savepoint
    silent: list[str]  # partitions without any record, which hold the watermark back
    buffered: int
    keys: int  # number of keys in the state
    facts: dict[str, int]  # number of facts of each kind
    records: int  # number of offsets that were read


class Bootstrap:
    """One bootstrap: `prepare`, then `publish`; `run` does both."""

    def __init__(self, job: JobSpec, options: BootstrapOptions, on_progress: Callable[[Progress], None]) -> None:
        self.job = job
        self.options = options
        self.on_progress = on_progress
        self.work = options.work_folder

    def run(self, tasks: Tasks | None = None) -> Prepared:
        """Creates the savepoint. The work folder named in the result no longer exists. Raises MoneystateError."""
        prepared = self.prepare(tasks)
        self.publish()
        return prepared

    def prepare(self, tasks: Tasks | None = None) -> Prepared:
        """Does everything except naming the savepoint. `tasks`: where to run; None: as the options say.
        Raises MoneystateError."""
        check_free(self.options.out)
        fetch(self.options.copies, Inputs(self.job.inputs), again=not (self.work / works.NAME).exists())
        sources = Sources(self.options, self.job.inputs)
        started = works.resume(self.work, self._settings())
        if (self.work / "savepoint" / MANIFEST).exists() and started is not None:
            return self._prepared(started)
        o = self.options
        if tasks is None and o.local:
            tasks = InProcess()
        if tasks is not None:
            return self._on(tasks, sources, started)
        with own_session(self.job.name, o.master, o.partitions, o.spark_config, self.work) as session:
            return self._on(SparkTasks(session), sources, started)

    def publish(self) -> None:
        """Renames the prepared savepoint to its final name and removes the work folder."""
        out = self.options.out.absolute()
        made = self.work / "savepoint"
        if (
            made.stat().st_dev != out.parent.stat().st_dev
        ):  # first beside its final place, so that it appears there at once
            beside = partial_folder(out)
            shutil.rmtree(beside, ignore_errors=True)
            made = Path(shutil.copytree(made, beside))
        made.rename(out)
        (
            self.work / works.NAME
        ).unlink()  # without this file the folder does not count as an earlier run, even if the removal is interrupted
        shutil.rmtree(self.work)

    def _on(self, tasks: Tasks, sources: Sources, started: BootstrapPlan | None) -> Prepared:
        if started is None:
            history = sources.history(self._source(), partial(self._inspect_files, tasks))
            started = self._start(history, tasks.cores)
        else:
            check_unchanged(started.history)
        self._read(tasks, started)
        self._run_groups(tasks, started)
        return self._prepared(started)

    # The phases

    def _start(self, history: History, cores: int) -> BootstrapPlan:
        loaded = first_loads(self._source(), history.partitions)
        first, rest = load_first(history.partitions, loaded)
        chunks, reached = cut_at(rest, self.options.max_records_per_chunk, self.options.reached)
        watermarks = {len(first) + chunk: watermark_ms for chunk, watermark_ms in reached.items()}
        tasks = _spread(history, self.options.source_tasks or cores)
        started = BootstrapPlan(history, [*first, *chunks], tasks, watermarks, loaded)
        works.begin(self.work, self._settings(), started)
        return started

    def _read(self, tasks: Tasks, started: BootstrapPlan) -> None:
        units = []
        n = len(started.tasks)
        slices = -(-tasks.cores // n)
        for task, places in enumerate(started.tasks):
            mine = [started.history.partitions[place] for place in places]
            for numbers in _slices(len(started.chunks), slices):
                chunks = {number: started.chunks[number] for number in numbers}
                units.append(ReadUnit(self.work, task, n, chunks, mine, started.loaded))
        sizes = _sizes(self.work, started)
        tasks.run(partial(read_unit, self._source()), units, partial(self._tell, READING, sizes))
        self._tell(READING, sizes)

    def _run_groups(self, tasks: Tasks, started: BootstrapPlan) -> None:
        spec = GroupSpec(
            self.work,
            len(started.chunks),
            len(started.tasks),
            self.job.processors(self.options.formats),
            self.job.bounds(),
            self.job.state,
            dict(self.job.rules),
            dict(initial_highs(started.history, self.job.inputs)),
            self.options.with_output,
            {t.code: t.name for t in self.job.inputs},
            started.watermarks,
            [*Inputs(t for t in self.job.inputs if t.ordered).names(started.history.tps())],
            Tables(self._source(), started.history.partitions) if self.job.copies_tables else None,
        )
        groups = list(range(self.options.key_groups))
        sizes = {result_path(self.work, group): 1 for group in groups}
        tasks.run(partial(run_group, spec), groups, partial(self._tell, RUNNING, sizes))
        self._tell(RUNNING, sizes)

    def _inspect_files(self, tasks: Tasks, function: Callable[[Any], Any], files: list[Any]) -> list[Any]:
        self.on_progress(Progress(INSPECTING, 0, len(files)))
        facts = tasks.run(function, files, lambda: None)
        self.on_progress(Progress(INSPECTING, len(files), len(files)))
        return facts

    def _tell(self, phase: str, sizes: dict[Path, int]) -> None:
        """Reports progress. `sizes`: how much each file of the phase counts."""
        done = sum(size for path, size in sizes.items() if path.exists())
        self.on_progress(Progress(phase, done, sum(sizes.values())))

    def _prepared(self, started: BootstrapPlan) -> Prepared:
        results = [read_result(self.work, group) for group in range(self.options.key_groups)]
        folder = self.work / "savepoint"
        if not (folder / MANIFEST).exists():
            manifest = self._manifest(started, results).encode()
            (folder / (MANIFEST + ".tmp")).write_text(manifest)
            (folder / (MANIFEST + ".tmp")).rename(folder / MANIFEST)
        names = Inputs(self.job.inputs).names(started.history.tps())
        kinds: dict[str, int] = {}
        for result in results:
            for kind, n in result.facts.items():
                kinds[kind] = kinds.get(kind, 0) + n
        return Prepared(
            Savepoint(folder),
            [place_text(names[code, number]) for code, number in results[0].silent],
            sum(result.buffered for result in results),
            sum(result.keys for result in results),
            kinds,
            started.history.records(),
        )

    def _manifest(self, started: BootstrapPlan, results: list[GroupResult]) -> Manifest:
        plan = started.history.plan(plans.rules_hash(self.job.rules))
        counts: dict[str, int] = {}
        for result in results:
            for name, n in result.counts.items():
                counts[name] = counts.get(name, 0) + n
        return Manifest(
            made_by=BOOTSTRAP,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            job=self.job.name,
            schemas=self.job.state.versions.schemas(),
            rules=dict(self.job.rules),
            key_groups=self.options.key_groups,
            partitions=self.options.partitions,
            plan=None if plan is None else plan.to_offset(),
            watermark=results[0].watermark,
            counts=counts,
            fingerprint=str(sum([Fingerprint(*result.fingerprint) for result in results], Fingerprint())),
            state=[FileInfo(**result.state) for result in results],
            output=[FileInfo(**result.output) for result in results if result.output is not None],
            streams=self.job.streams,
        )

    # The arguments of tasks

    def _source(self) -> SourceSpec:
        o, job = self.options, self.job
        return SourceSpec(
            bootstrap_servers=o.bootstrap_servers,
            extra=o.kafka_config,
            topic_prefix=o.topic_prefix,
            group=f"{o.topic_prefix or 'moneystate'}-bootstrap",
            inputs=job.inputs,
            decoder=job.decoder,
            key_groups=o.key_groups,
            output_partitions=o.partitions,
            source_tasks=o.source_tasks,
            bound_ms=job.bound_ms,
            max_future_ms=job.max_future_ms,
            dead_letter_stream=job.dead_letter_stream,
            max_record_bytes=job.max_record_bytes,
            max_records=o.max_records_per_chunk,
            rules=plans.rules_hash(job.rules),
            start={},
            bounded=True,
            drain=False,
            idle_timeout_s=None,
            stop_file="",
            formats=o.formats,
            registry_url=o.registry_url,
            service=job.service,
        )

    def _settings(self) -> dict[str, Any]:
        o = self.options
        sources = [str(folder) for folder in o.archives] + ([o.bootstrap_servers] if o.from_kafka else [])
        highs = o.initial_highs.read_text() if o.initial_highs else ""
        return works.settings_of(
            self.job.rules,
            sources=sources,
            topic_prefix=o.topic_prefix,
            as_of=Path(o.as_of).read_text() if is_file(o.as_of) else o.as_of,
            starts=_listed(o.starts),
            ends=_listed(o.ends),
            reached=[[_listed(ends), watermark_ms] for ends, watermark_ms in o.reached],
            initial_highs=highs,
            key_groups=o.key_groups,
            partitions=o.partitions,
            with_output=o.with_output,
            formats=o.formats,
        )


def _listed(offsets: Mapping[TopicPartition, int] | None) -> list[Any] | None:
    return None if offsets is None else [[*tp, offset] for tp, offset in sorted(offsets.items())]


def _spread(history: History, tasks: int) -> list[list[int]]:
    """The partitions of each source task: the largest first, to the least loaded task."""
    tasks = max(1, min(tasks, len(history.partitions)))
    loads = [0] * tasks
    places: list[list[int]] = [[] for _ in range(tasks)]
    sizes = [p.end - p.start for p in history.partitions]
    for place in sorted(range(len(sizes)), key=lambda n: -sizes[n]):
        task = loads.index(min(loads))
        loads[task] += sizes[place] + 1
        places[task].append(place)
    return places


def _slices(n: int, slices: int) -> Iterator[range]:
    """Splits 0 .. n-1 into `slices` consecutive ranges, none of them empty."""
    for k in range(slices):
        part = range(n * k // slices, n * (k + 1) // slices)
        if part:
            yield part


def _sizes(work: Path, started: BootstrapPlan) -> dict[Path, int]:
    """The number of offsets in each shuffle file."""
    partitions = started.history.partitions
    sizes = {}
    for number, chunk in enumerate(started.chunks):
        for task, places in enumerate(started.tasks):
            spans = [chunk[partitions[n].tp] for n in places]
            sizes[shuffle_path(work, number, task)] = sum(end - start for start, end in spans)
    return sizes
