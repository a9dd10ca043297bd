"""Builds the history from the options: checks archives and Kafka before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from moneystate.bootstrap.history import (
    Cut,
    History,
    KafkaLog,
    PartitionHistory,
    archive_cut,
    archive_topic_ids,
    cut_at,
    from_archive,
    from_kafka,
    joined,
    parse_cut,
    read_initial_highs,
)
from moneystate.bootstrap.inspect import FileFacts, Inspector
from moneystate.bootstrap.layout import ArchivedPartition, ArchiveFile, archived_topics, find_archives
from moneystate.bootstrap.options import BootstrapOptions
from moneystate.engine.inputs import Inputs
from moneystate.engine.plan import TopicPartition
from moneystate.engine.processor import InputTopic
from moneystate.engine.reading import EventTimes
from moneystate.errors import ArchiveError, ConfigError
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.convert import converters
from moneystate.kafka.input_topics import topics_at_start
from moneystate.kafka.offsets import log_ends, log_starts, offsets_at
from moneystate.kafka.planner import Planner
from moneystate.kafka.source_spec import SourceSpec, load_decoder

PROBES = 32  # samples of event times in each partition, at most
RECORDS_PER_PROBE = 10_000  # at least

InspectAll = Callable[[Callable[[tuple[ArchiveFile, int]], FileFacts], list[tuple[ArchiveFile, int]]], list[FileFacts]]


class Sources:
    """The sources of a bootstrap. The constructor checks names, notes and the broker, and raises their errors."""

    def __init__(self, options: BootstrapOptions, inputs: list[InputTopic]) -> None:
        options.check()
        self.options = options
        self.inputs = inputs
        names = [t.name for t in inputs]
        self.cut = parse_cut(options.as_of, names)
        if options.ends is not None:
            self.cut = Cut(offsets=options.ends)
        self.highs = read_initial_highs(options.initial_highs, names)
        self.archived_topics = archived_topics(options.archives, Inputs(inputs)) if options.archives else []
        self.archives: dict[TopicPartition, ArchivedPartition] = find_archives(options.archives, self.archived_topics)
        self.log = self._query_kafka() if options.from_kafka else None
        if self.cut.at_ms is not None and self.log is None and not self.archives:
            raise ConfigError(
                "--as-of: expected a history with timestamps, found files without.", "give a JSON file of offsets."
            )

    def _query_kafka(self) -> KafkaLog:
        o = self.options
        check_reachable(o.bootstrap_servers, o.kafka_config)
        admin: AdminClient = admin_client(o.bootstrap_servers, o.kafka_config)
        states = topics_at_start(admin, self.inputs, o.topic_prefix)
        full = {(t, p): (o.topic_prefix + t, p) for t, state in states.items() for p in state.partitions}
        starts, ends = log_starts(admin, full.values()), log_ends(admin, full.values())
        cut_offsets = ends if self.cut.at_ms is None else offsets_at(admin, full.values(), self.cut.at_ms)
        return KafkaLog(
            {tp: starts[name] for tp, name in full.items()},
            {tp: ends[name] for tp, name in full.items()},
            {tp: max(starts[name], cut_offsets[name]) for tp, name in full.items()},
            {t: state.topic_id for t, state in states.items()},
        )

    def history(self, spec: SourceSpec, inspect_all: InspectAll) -> History:
        """Reads all archive files once, with `inspect_all`, and samples the logs. Raises ArchiveError, ConfigError and
        RetentionError."""
        archived, times = self._archived(spec, inspect_all)
        unknown = sorted((self.cut.offsets.keys() | self.highs.keys()) - (archived.keys() | self._logged()))
        if unknown:
            raise ConfigError(
                f"expected partitions that exist, found {unknown[0][0]}, partition {unknown[0][1]}.",
                "name partitions of the topic.",
            )
        every = sorted(archived.keys() | self._logged())
        partitions = [self._partition(tp, archived.get(tp), times.get(tp)) for tp in every]
        return History(self._with_points(spec, partitions), self._topic_ids())

    def _topic_ids(self) -> Mapping[str, str]:
        """Raises ArchiveError if an archive is of another topic than the one that Kafka has now."""
        archived = archive_topic_ids(self.archives, self.archived_topics)
        if self.log is None:
            return archived
        for topic, known in archived.items():
            if known and known != self.log.topic_ids.get(topic, known):
                raise ArchiveError(
                    f"{topic}: expected the archive of the topic in Kafka ({self.log.topic_ids[topic]}), found that of "
                    f"{known}: the topic was deleted and created again, or is on another cluster.",
                    "bootstrap from the archive alone, or archive the current topic.",
                )
        return self.log.topic_ids

    def _logged(self) -> set[TopicPartition]:
        return set() if self.log is None else set(self.log.starts)

    def _archived(
        self, spec: SourceSpec, inspect_all: InspectAll
    ) -> tuple[dict[TopicPartition, PartitionHistory], dict[TopicPartition, int | None]]:
        """Each partition's whole archive, and the offset of the cut's time in it."""
        inputs = Inputs(self.inputs)
        files = [
            (file, inputs.first(partition_archive.topic)[0])
            for partition_archive in self.archives.values()
            for file in partition_archive.files
        ]
        facts = inspect_all(_Inspection(spec, self.cut.at_ms), files) if files else []
        by_path = {file.path: fact for (file, _), fact in zip(files, facts, strict=True)}
        archived, times = {}, {}
        for tp, partition_archive in self.archives.items():
            mine = [by_path[file.path] for file in partition_archive.files]
            archived[tp] = from_archive(partition_archive, mine, self.highs)
            times[tp] = archive_cut(archived[tp], mine)
        return archived, times

    def _partition(self, tp: TopicPartition, archived: PartitionHistory | None, time: int | None) -> PartitionHistory:
        if archived is None:
            assert self.log is not None
            start = None if self.options.starts is None else self.options.starts.get(tp)
            history = from_kafka(tp, self.log, self.highs, start)
        else:
            history = archived if self.log is None else joined(archived, self.log)
        if tp in self.cut.offsets:
            if self.log is not None and tp in self.log.ends:
                history = replace(history, end=self.log.ends[tp])
            return cut_at(history, self.cut.offsets[tp])
        return history if time is None else cut_at(history, time)

    def _with_points(self, spec: SourceSpec, partitions: list[PartitionHistory]) -> list[PartitionHistory]:
        """Adds sampled event times to the partitions that are read from Kafka."""
        spans = {p.tp: (p.kafka_from, p.end) for p in partitions if p.kafka_from is not None and p.kafka_from < p.end}
        probes = min(PROBES, 1 + sum(end - start for start, end in spans.values()) // RECORDS_PER_PROBE)
        points: dict[TopicPartition, dict[int, int]] = {p.tp: {} for p in partitions}
        if spans and probes > 1:
            converts = converters(spec.formats, spec.inputs, spec.registry_url, 0.0, spec.service)
            planner = Planner(spec, load_decoder(spec.decoder), converts)
            for probe in range(probes):
                probe_offsets = {tp: start + (end - start) * probe // probes for tp, (start, end) in spans.items()}
                for tp, (offset, ms) in planner.peek(probe_offsets).items():
                    points[tp][offset] = ms
        return [replace(p, points=[*p.points, *sorted(points[p.tp].items())]) for p in partitions]


class _Inspection:
    """Inspects a file, in any process."""

    def __init__(self, spec: SourceSpec, at_ms: int | None) -> None:
        self.spec = spec
        self.at_ms = at_ms

    def __call__(self, file_and_topic: tuple[ArchiveFile, int]) -> FileFacts:
        s = self.spec
        convert = converters(s.formats, s.inputs, s.registry_url, service=s.service)
        return Inspector(EventTimes(load_decoder(s.decoder), s.formats, convert, s.inputs), self.at_ms).inspect(
            *file_and_topic
        )


def initial_highs(history: History, inputs: list[InputTopic]) -> Mapping[tuple[int, int], int]:
    """The highs with which a key group's clock begins, by topic code."""
    ordered = Inputs(t for t in inputs if t.ordered)
    return {
        ordered.place(p.tp): p.initial_high
        for p in history.partitions
        if p.initial_high is not None and ordered.of(p.topic)
    }
