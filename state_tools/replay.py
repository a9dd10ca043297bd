"""Verifies a checkpoint by replay: the logs up to its position must give the same state and output.

The replay is a bootstrap (`moneystate.bootstrap`): the same core with different batches. Some decisions of the live run
are not in the logs: which partitions are idle, the broker's time for inputs in arrival order, and a drain. The
checkpoint records the watermarks that came of them, and the replay follows these.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from moneystate.bootstrap.job import Bootstrap, Progress
from moneystate.bootstrap.options import KAFKA, BootstrapOptions
from moneystate.bootstrap.tasks import InProcess, SparkTasks
from moneystate.engine import plan as plans
from moneystate.engine.block import Block
from moneystate.engine.inputs import Inputs
from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.engine.keygroup import run_batch
from moneystate.engine.place import MARK, header_of
from moneystate.engine.plan import Plan, Reached, TopicPartition
from moneystate.engine.processor import Convert
from moneystate.engine.state import MemoryState
from moneystate.errors import CheckpointError, RetentionError, SetupError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.startup import check_logs
from moneystate.kafka.client import admin_client, check_reachable, headers_of
from moneystate.kafka.convert import converted, writers
from moneystate.kafka.input_topics import input_topics
from moneystate.kafka.offsets import log_ends, log_starts, topic_states
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.kafka.topics import check_not_compacted, is_compacted
from moneystate.ports.service import JobSpec, rule_changes
from moneystate.savepoint.compare import Comparison, compare
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.format import Savepoint, begin, finish, write_output, write_state
from state_tools.export import FINISH_FIRST, export, open_checkpoint
from state_tools.offline import session_for

Record = tuple[bytes | None, bytes | None]  # key and value
MAX_EXAMPLES = 5  # of missing records, and as many of additional ones


@dataclass(frozen=True)
class OutputComparison:
    """Records of the first output topic, compared by key and value."""

    expected: int  # records of the replay
    missing: int  # how many of these are not in Kafka
    more: int  # records in Kafka that the replay did not give
    before: bool  # the topic may also have earlier records, from before the checkpoint
    examples: list[bytes]  # keys of some missing and additional records

    def agrees(self) -> bool:
        return not self.missing and (self.before or not self.more)


@dataclass(frozen=True)
class Verdict:
    """The result of `verify-replay`."""

    records: int  # number of records replayed
    state: Comparison
    fingerprint: str
    output: OutputComparison | None  # None: not compared, for a reason in `notes`
    notes: list[str]

    def agrees(self) -> bool:
        return self.state.total == 0 and (self.output is None or self.output.agrees())


class Replay:
    """Replays a checkpoint's input. `options` say how to connect. The checkpoint determines topic prefix, key groups
    and end offsets."""

    def __init__(self, job: JobSpec, checkpoint: Checkpoint, options: BootstrapOptions, most: int) -> None:
        self.job = job
        self.checkpoint = checkpoint
        self.most = most  # how many differences of the state to report
        self.plan: Plan = plans.from_offset(checkpoint.offset(checkpoint.last_committed()))
        settings, start = checkpoint.settings(), checkpoint.start()
        self.prefix: str = settings["topic_prefix"]
        self.from_savepoint = start.get("initial") is not None
        self.takes_over = bool(start["superseded"])
        first_plan = plans.from_offset(start["offset"])
        self.starts = {tp: planned.end for tp, planned in first_plan.partitions.items()}
        self.options = replace(
            options,
            sources=[KAFKA],
            starts=None if self.from_savepoint else self.starts,
            ends={tp: planned.end for tp, planned in self.plan.partitions.items()},
            with_output=True,
            topic_prefix=self.prefix,
            key_groups=settings["key_groups"],
            partitions=settings["partitions"],
        )

    def check(self) -> None:
        """Checks the topics before anything is read. Raises RetentionError, SetupError, BrokerError."""
        o = self.options
        check_reachable(o.bootstrap_servers, o.kafka_config)
        admin = admin_client(o.bootstrap_servers, o.kafka_config)
        check_logs(admin, self.plan, self.plan, self.prefix)
        states = input_topics(admin, self.job.inputs, self.prefix)
        check_not_compacted(admin, [self.prefix + topic for topic in states])
        existing = {(t, p) for t, s in states.items() for p in s.partitions}
        for topic, partition in sorted(existing - self.plan.partitions.keys()):
            raise SetupError(
                f"{self.prefix}{topic}, partition {partition}: expected only partitions that the job has read, found a "
                "new one.",
                "run the job again first.",
            )
        for tp, first in log_starts(admin, [(self.prefix + t, p) for t, p in self.plan.partitions]).items():
            start = self._start_of((tp[0].removeprefix(self.prefix), tp[1]))
            if first > start:
                raise RetentionError(
                    f"{tp[0]}, partition {tp[1]}: expected all records from offset {start}, found a log that begins at "
                    f"{first}: retention has deleted records.",
                    "bootstrap from an archive, then compare its savepoint: moneystate checkpoint compare "
                    f"{self.checkpoint.root} SAVEPOINT.",
                )

    def _start_of(self, tp: TopicPartition) -> int:
        return 0 if self.from_savepoint else self.starts.get(tp, 0)

    def run(self, scratch: Path, on_progress: Callable[[Progress], None]) -> Verdict:
        """Replays into `scratch`, and compares. Raises MoneystateError."""
        with session_for(self.checkpoint, self.options.master, self.options.spark_config) as session:
            export(session, self.job.state, self.checkpoint, scratch / "live")
            live = Savepoint(scratch / "live")
            o = replace(self.options, out=scratch / "replay", work=None, reached=self._reached(live))
            prepared = Bootstrap(self.job, o, on_progress).run(InProcess() if session is None else SparkTasks(session))
        replayed = Savepoint(o.out)
        if self.plan.drain:
            replayed = drained(replayed, scratch / "drained", self.plan, self.job)
        state = compare(self.job.state, live, replayed, self.most)
        notes = self._notes()
        return Verdict(prepared.records, state, live.manifest.fingerprint, self._output(replayed, notes), notes)

    def _reached(self, live: Savepoint) -> list[Reached]:
        """The recorded watermarks, and that of the state, at which the run stands."""
        reached, at_end = self.checkpoint.watermarks(), live.manifest.watermark
        if not NO_TIME < at_end < END_OF_TIME:
            return reached
        ends = {tp: planned.end for tp, planned in self.plan.partitions.items()}
        return [*reached, Reached(ends, at_end)]

    def _idle(self) -> list[TopicPartition]:
        return [tp for tp, planned in self.plan.partitions.items() if planned.state == plans.IDLE]

    # The output

    def _output(self, replayed: Savepoint, notes: list[str]) -> OutputComparison | None:
        o = self.options
        topic = self.prefix + self.job.streams[0]
        if self.job.dead_letter_stream == 0:
            notes.append(f"{topic}: not compared, because the service has no outputs.")
            return None
        admin = admin_client(o.bootstrap_servers, o.kafka_config)
        partitions = [(topic, p) for p in topic_states(admin, [topic])[topic].partitions]
        starts, ends = log_starts(admin, partitions), log_ends(admin, partitions)
        if any(starts.values()):
            notes.append(f"{topic}: not compared, because retention has deleted some records.")
            return None
        convert = writers(o.formats, self.job.streams, self.prefix, o.registry_url, self.job.service)
        timed = self.job.streams[0] in self.job.timed
        in_topic = _records_in_topic(o, [Range(*tp, starts[tp], ends[tp]) for tp in partitions], timed)
        groups = range(replayed.manifest.key_groups)
        complete: set[bytes | None] = set()
        if is_compacted(admin, topic):
            notes.append(f"{topic}: compacted, so records that a later one of their key replaced may be absent.")
            complete = complete_keys(in_topic, (_first_stream(replayed, convert, group) for group in groups))
        records = chain.from_iterable(_first_stream(replayed, convert, group) for group in groups)
        return compared(in_topic, records, self.from_savepoint or self.takes_over, complete)

    def _notes(self) -> list[str]:
        notes = []
        if self._idle():
            idle = ", ".join(f"{topic}/{partition}" for topic, partition in self._idle())
            notes.append(f"idle at the end, by wall clock: {idle}.")
        if other := other_rules(self.checkpoint, self.job.rules):
            notes.append(f"the job had other rules before ({', '.join(other)}); the replay has the latest.")
        if changed := changed_functions(self.checkpoint, self.job.functions):
            notes.append(f"these functions have changed since the job's last start: {', '.join(changed)}.")
        if self.from_savepoint:
            notes.append(
                "the checkpoint began with a savepoint; everything is replayed from the beginning of the logs."
            )
        return notes


def other_rules(checkpoint: Checkpoint, rules: Mapping[str, Any]) -> list[str]:
    """The rules that differed in an earlier run. The versions of the program are none."""
    return sorted({name for earlier in checkpoint.every_rules() for name in rule_changes(earlier, rules)})


def changed_functions(checkpoint: Checkpoint, functions: Mapping[str, str]) -> list[str]:
    """Their names, as far as the checkpoint knows the functions of its last start."""
    before = checkpoint.functions()
    return sorted(
        {name for name in {**before, **functions} if before.get(name) != functions.get(name)} if before else ()
    )


def drained(replayed: Savepoint, out: Path, plan: Plan, job: JobSpec) -> Savepoint:
    """Applies the time of `plan`, then its drain, each with a batch without records."""
    ordered = Inputs(t for t in job.inputs if t.ordered)
    marks = [
        (*ordered.place(tp), NO_TIME, 0 if planned.state == plans.IDLE else 1, planned.clock_ms or NO_TIME)
        for tp, planned in plan.partitions.items()
        if ordered.of(tp[0])
    ]
    m = replayed.manifest
    folder = begin(out)
    states, outputs, total, watermark = [], [], Fingerprint(), m.watermark
    for group in range(m.key_groups):
        state = MemoryState(dict(replayed.entries(group)))
        before = run_batch(Block(0, 1, NO_TIME, marks), state, job.make(), job.bounds())
        result = run_batch(Block(0, 1, plan.drain_to(), marks), state, job.make(), job.bounds())
        entries = sorted(state.entries.items())
        states.append(write_state(folder, group, entries))
        outputs.append(write_output(folder, group, chain(replayed.outputs(group), before.outputs, result.outputs)))
        total += of_group(group, entries, job.state, m.rules)
        watermark = result.watermark
    finish(out, replace(m, state=states, output=outputs, fingerprint=str(total), watermark=watermark))
    return Savepoint(out)


def digest_of(key: bytes | None, value: bytes | None) -> bytes:
    return hashlib.blake2b(b"%d:%b%b" % (len(key or b""), key or b"", value or b""), digest_size=8).digest()


def _records_in_topic(o: BootstrapOptions, ranges: list[Range], timed: bool) -> dict[bytes, tuple[int, bytes]]:
    """Counts the records of the topic by digest, with their keys. This takes about 200 bytes of memory per record.
    `timed`: the topic also has marks, which do not count."""
    counts: dict[bytes, tuple[int, bytes]] = {}
    reader = RangeReader(o.bootstrap_servers, o.kafka_config, "moneystate-verify")
    try:
        for message in reader.read(ranges):
            if timed and header_of(headers_of(message), MARK) is not None:
                continue
            digest = digest_of(message.key(), message.value())
            counts[digest] = (counts.get(digest, (0, b""))[0] + 1, message.key() or b"")
    finally:
        reader.consumer.close()
    return counts


def _first_stream(replayed: Savepoint, convert: dict[int, Convert], group: int) -> Iterator[Record]:
    for output in replayed.outputs(group):
        if output[0] == 0:
            _, key, value, _ = converted(output, convert)
            yield key, value


def complete_keys(in_topic: Container[bytes], replayed: Iterable[Iterable[Record]]) -> set[bytes | None]:
    """The keys whose last record is in a compacted topic. It may be that of any key group. The topic need not have the
    earlier ones, nor a tombstone that is the last one. `in_topic`: digests; `replayed`: records by key group."""
    complete: set[bytes | None] = set()
    for records in replayed:
        last = {key: None if value is None else digest_of(key, value) for key, value in records}
        complete |= {key for key, digest in last.items() if digest is None or digest in in_topic}
    return complete


def compared(
    in_topic: dict[bytes, tuple[int, bytes]], replayed: Iterable[Record], before: bool,
    complete: Container[bytes | None] = (),
) -> OutputComparison:  # fmt: skip
    """Compares the counted records of the topic with those of the replay. `before`: see `OutputComparison`.
    `complete`: keys of which the topic may lack records."""
    # Counts how many more records the topic has than the replay.
    surplus = Counter({digest: n for digest, (n, _) in in_topic.items()})
    expected = 0
    examples: list[bytes] = []
    for key, value in replayed:
        expected += 1
        digest = digest_of(key, value)
        if surplus[digest] <= 0 and key in complete:
            continue
        surplus[digest] -= 1
        if surplus[digest] < 0 and len(examples) < MAX_EXAMPLES:
            examples.append(key or b"")
    missing = -sum(n for n in surplus.values() if n < 0)
    more = [digest for digest, n in surplus.items() if n > 0]
    if not before:
        examples.extend(in_topic[digest][1] for digest in more[:MAX_EXAMPLES])
    return OutputComparison(expected, missing, sum(surplus[digest] for digest in more), before, examples)


def open_for_replay(folder: str) -> Checkpoint:
    """Raises CheckpointError if a batch is not finished: a part of its output may be in Kafka."""
    checkpoint = open_checkpoint(folder)
    if checkpoint.planned_rules() is not None:
        raise CheckpointError(
            f"{folder}: expected all planned batches to be finished, batch {checkpoint.last_planned()} is not.",
            FINISH_FIRST,
        )
    return checkpoint
