"""Reads a batch's records as blocks: what each of a few tasks reads, and how."""

from __future__ import annotations

from typing import NamedTuple

from moneystate.engine import plan as plans
from moneystate.engine.inputs import Inputs
from moneystate.engine.intake import Intake, PlannedPartition
from moneystate.engine.items import NO_TIME
from moneystate.job.collector import no_collection
from moneystate.kafka.client import letter_of
from moneystate.kafka.convert import converters
from moneystate.kafka.ranges import Range, cached_reader, discard_readers
from moneystate.kafka.source_spec import SourceSpec, load_decoder

# topic, partition, start, end, whether it holds the watermark (1), clock as in a mark, loaded as in `PlannedPartition`
PlannedRange = tuple[str, int, int, int, int, int, int]


class TaskRead(NamedTuple):
    """Holds what one task of `tasks` reads."""

    task: int
    tasks: int
    drain_to: int  # as in `order.advance`
    ranges: list[PlannedRange]
    rewrite: tuple[int, int, int] | None  # (share, shares, version) of a batch that rewrites state; None: it reads


def plan_reads(start: plans.Plan, end: plans.Plan, spec: SourceSpec) -> list[TaskRead]:
    """Spreads the batch's partitions over a few tasks: the largest range first, to the least loaded task."""
    tasks = max(1, min(spec.source_tasks, len(end.partitions)))
    loads = [0] * tasks
    inputs = Inputs(spec.inputs)
    ranges: list[list[PlannedRange]] = [[] for _ in range(tasks)]

    def begin(tp: plans.TopicPartition) -> int:
        # a partition that is new in this plan has no start yet: this batch reads nothing of it
        known = start.partitions.get(tp)
        return end.partitions[tp].end if known is None else known.end

    for tp, planned in sorted(end.partitions.items(), key=lambda kv: (begin(kv[0]) - kv[1].end, kv[0])):
        task = loads.index(min(loads))
        loads[task] += planned.end - begin(tp) + 1
        holds = 0 if planned.state == plans.IDLE else 1
        clock = NO_TIME if planned.clock_ms is None else planned.clock_ms
        ranges[task].append((*tp, begin(tp), planned.end, holds, clock, inputs.loaded(tp[0], planned.loaded)))
    r = end.rewrite
    rewrite = None if r is None else (r.share, r.shares, r.version)
    return [TaskRead(task, tasks, end.drain_to(), mine, rewrite) for task, mine in enumerate(ranges)]


def read_blocks(spec: SourceSpec, plan: TaskRead, marked: set[int]) -> list[bytes]:
    """Reads one task's records. Returns packed blocks, one for each key group. Those of the key groups in `marked` have
    the marks."""
    intake = open_intake(spec, plan)
    with no_collection():
        take_in(intake, spec, plan.task, plan.ranges)
        return intake.close(marked)


def open_intake(spec: SourceSpec, plan: TaskRead) -> Intake:
    decoder = load_decoder(spec.decoder)
    converts = converters(spec.formats, spec.inputs, spec.registry_url, service=spec.service)
    inputs = Inputs(spec.inputs)
    intake = Intake(
        decoder,
        spec.inputs,
        [PlannedPartition(*inputs.place((r[0], r[1])), r[4], r[5], r[3], r[6]) for r in plan.ranges],
        spec.key_groups,
        spec.bound_ms,
        spec.max_future_ms,
        spec.dead_letter_stream,
        converts,
        spec.max_record_bytes,
        decoder.reads(spec.formats, converts),
        decoder.values(spec.formats),
    )
    rewrite = None if plan.rewrite is None else plans.Rewrite(*plan.rewrite)
    intake.open(plan.task, plan.tasks, plan.drain_to, rewrite)
    return intake


def take_in(intake: Intake, spec: SourceSpec, slot: int, planned: list[PlannedRange]) -> None:
    """Reads the records of the planned ranges with this process's reader number `slot`."""
    inputs = Inputs(spec.inputs)
    topics = {spec.topic(topic): (*inputs.first(topic), inputs.name(topic)) for topic, *_ in planned}
    reader = cached_reader(spec.bootstrap_servers, spec.extra, spec.group, slot, len(planned))
    ranges = [Range(spec.topic(topic), partition, start, end) for topic, partition, start, end, *_ in planned]
    whole = intake.reads
    try:
        for message in reader.read(ranges):
            code, first, name = topics[message.topic()]
            if code in whole:
                letter = letter_of(message)
                letter.name = name
                why = intake.add_whole(code, first + letter.partition, letter)
                if why is not None:
                    intake.reject(letter, why)
                continue
            kind, timestamp = message.timestamp()
            partition = first + message.partition()
            time_ms = timestamp if kind else -1
            why = intake.add(code, partition, message.offset(), time_ms, message.value(), name)
            if why is not None:
                intake.reject(letter_of(message), why)
    except BaseException:
        discard_readers()
        raise
