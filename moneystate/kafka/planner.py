"""Plans batches: which offsets the next batch reads, which partitions are idle, and whether the job is finished.

Every decision that depends on the environment (where the logs end, the current time) is made here and written into the
offset, so that a batch that runs again is the same batch (docs/model.md section 5).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from moneystate.engine import plan as plans
from moneystate.engine.inputs import Inputs, place_text
from moneystate.engine.plan import Backlog, PartitionPlan, Plan
from moneystate.engine.processor import Convert, Decoder, Rejected, needs_broker_time
from moneystate.engine.reading import EventTimes
from moneystate.errors import BrokerError, RetentionError, SetupError, StepError, UnknownSchemaId
from moneystate.kafka.arrivals import Arrivals, LogEnds, committed_ends
from moneystate.kafka.client import admin_client, is_end_of_partition, letter_of, place, range_consumer, reason
from moneystate.kafka.input_topics import input_topics
from moneystate.kafka.offsets import FullPartition, TopicState, high_watermarks, log_starts
from moneystate.kafka.put_out import most_records
from moneystate.kafka.source_spec import SourceSpec
from moneystate.kafka.table_loads import TableLoads, is_ready, unloaded
from moneystate.kafka.topics import check_timestamps

METADATA_EVERY_S = 5.0  # how soon a new partition is noticed
BROKER_AWAY_S = 120.0  # restarting a broker takes less, including the recovery of its log
RETRY_S = 0.5
PEEK_S = 3.0  # a peek that finds nothing decodable in that time leaves the partition without a rate
PEEK_RECORDS = 200
BATCH_BYTES = 256 * 1024 * 1024  # of a batch's records, about: tasks and Spark's JVM hold it as a whole
LOAD_RECORDS = 50_000  # of a table's first load: a batch holds all entries that it makes
LARGEST_RECORD_BYTES = 1024 * 1024  # by a broker's default
SIZES_EVERY_S = 10.0  # how soon larger records are noticed
SIZE_PROBES = 3
PROBES = 3  # samples from the backlog before a batch is cut, because event time need not be linear


@dataclass
class Planner:
    spec: SourceSpec
    decoder: Decoder
    converts: dict[int, Convert]

    def __post_init__(self) -> None:
        self.inputs = Inputs(self.spec.inputs)
        self.admin: AdminClient = admin_client(self.spec.bootstrap_servers, self.spec.extra)
        self.idleness = plans.Idleness(None if self.spec.bounded else self.spec.idle_timeout_s)
        self.target: LogEnds | None = None
        self.topics: dict[str, TopicState] = {}
        self.topics_at = float("-inf")
        self.timed = {t.name for t in self.spec.inputs if t.timed}
        self.arrivals = Arrivals(self.spec, self.admin)
        self.unordered = {t.name for t in self.spec.inputs if not t.ordered}
        self.replies_until: float | None = None
        self._peeker: Consumer | None = None
        self.loads = TableLoads(self.spec, self.decoder)
        self.times = EventTimes(self.decoder, self.spec.formats, self.converts, self.spec.inputs)
        self.sizes: dict[plans.TopicPartition, list[int]] = {}  # sizes of sampled records
        self.sizes_at = float("-inf")

    def fix_target(self) -> None:
        """Remembers the current ends of the logs as the target of a bounded run."""
        self.target = self.arrivals.look(self._partitions())

    def next_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """The end offset of the next batch; `start` itself if there is nothing to do.

        Waits for brokers that are away, because a rolling restart must not end a job. Raises BrokerError if they stay
        away. After a drain it waits for replies, too.
        """
        plan = plans.from_offset(start)
        if self.spec.rewrite is not None:
            return start if self._stopping() else self._next_share(plan, start, *self.spec.rewrite)
        give_up = time.monotonic() + BROKER_AWAY_S
        while not (self.spec.only_planned or self._stopping()):
            if plan.drains_on(self.spec.drain_until_ms):
                return self._drained(replace(plan, rules=self.spec.rules, rewrite=None))
            if plan.drain and self._is_drain_complete():
                return start
            try:
                following = self._replies(plan, start) if plan.drain else self._next(plan, start)
                if following is not start or not plan.drain:
                    return following
                give_up = time.monotonic() + BROKER_AWAY_S
            except BrokerError:
                self.idleness.failed()
                if time.monotonic() > give_up:
                    raise
            time.sleep(RETRY_S)
        return start

    def _is_drain_complete(self) -> bool:
        """Whether a drained job has finished reading: no lookup is open, or the time for replies is over (section
        2)."""
        now = time.monotonic()
        if self.replies_until is None:
            self.replies_until = now + self.spec.replies_s
        return not self.unordered or now >= self.replies_until or Path(self.spec.drain_complete_file).exists()

    def _replies(self, plan: Plan, start: dict[str, Any]) -> dict[str, Any]:
        """A batch of new records of the unordered inputs; `start` itself if there are none."""
        try:
            replies = {tp: full for tp, full in self._partitions().items() if tp[0] in self.unordered}
            ends = committed_ends(self.admin, replies)
            self._check(plan, ends)
            following = replace(self._following(plan, LogEnds(ends)), drain=True, drain_until_ms=plan.drain_until_ms)
        except KafkaException as e:
            raise self._no_plan(e) from None
        return start if following.reads_like(plan) else following.to_offset()

    def _no_plan(self, e: KafkaException) -> BrokerError:
        return BrokerError(
            f"{self.spec.bootstrap_servers}: expected to plan a batch, but {reason(e)}.",
            "check the brokers, then start the job again.",
        )

    def _next(self, plan: Plan, start: dict[str, Any]) -> dict[str, Any]:
        try:
            still_read = self._still_read(plan)
            ends = self.arrivals.look_for_news(still_read, self._partitions()) if self.target is None else self.target
            self._check(still_read, ends.ends)
            following = self._following(still_read, ends)
        except KafkaException as e:
            raise self._no_plan(e) from None
        if not following.reads_like(plan) or following.tick != plan.tick or self.arrivals.is_due(plan, following):
            return following.to_offset()
        self._check_loaded(plan)
        if self.spec.bounded and self.spec.drain:
            return self._drained(replace(following, partitions=plan.partitions))
        return start

    def _check_loaded(self, plan: Plan) -> None:
        """A bounded run would end without its inputs. Raises SetupError."""
        missing = [place_text(tp) for tp in unloaded(plan, self.spec.inputs)]
        if self.spec.bounded and missing:
            raise SetupError(
                f"{', '.join(missing)}: expected the end of a table's first load (TableLoaded), found none.",
                "load the table (moneystate table load), or declare it with ready='immediately'.",
            )

    def _drained(self, plan: Plan) -> dict[str, Any]:
        return replace(plan, drain=True, drain_until_ms=self.spec.drain_until_ms).to_offset()

    def _next_share(self, plan: Plan, start: dict[str, Any], shares: int, version: int) -> dict[str, Any]:
        """The batch after `plan`, which rewrites the next share of the state in `version`."""
        share = plans.next_share(plan, shares, version)
        if share > shares:
            return start
        rewrite = plans.Rewrite(share, shares, version)
        return replace(plan, rules=self.spec.rules, tick=plan.tick + 1, rewrite=rewrite).to_offset()

    def _still_read(self, plan: Plan) -> Plan:
        """Leaves out topics that are no longer inputs, as the replies are after `--session-lookup none`."""
        return plan.with_partitions({tp: p for tp, p in plan.partitions.items() if self.inputs.of(tp[0])})

    def _check(self, plan: Plan, ends: Mapping[plans.TopicPartition, int]) -> None:
        """Checks that the topics are those that were read, and that their logs still have what the plan needs."""
        for name, state in self._topics().items():
            if plan.topic_ids.get(name, state.topic_id) != state.topic_id:
                raise SetupError(
                    f"{self.spec.topic(name)}: expected the topic that was read so far, found a new one of this name.",
                    "start a new checkpoint for the new topic.",
                )
        for (name, partition), planned in plan.partitions.items():
            end = ends.get((name, partition), planned.end)
            if end < planned.end:
                raise RetentionError(
                    f"{self.spec.topic(name)}, partition {partition}: expected a log up to offset {planned.end}, as "
                    f"was read, it ends at {end}: records were lost.",
                    "restore the topic, or start a new checkpoint.",
                )

    def _stopping(self) -> bool:
        """Spark asks for an offset only between batches: once `stop.seen` is there, no batch runs and none will
        follow."""
        stop = Path(self.spec.stop_file)
        if not stop.exists():
            return False
        stop.with_name(stop.name + ".seen").touch()
        return True

    def _following(self, plan: Plan, log: LogEnds) -> Plan:
        ends = log.ends
        self.loads.look(plan, ends)
        spans = {tp: (p.end, ends.get(tp, p.end)) for tp, p in plan.partitions.items()}
        most = self.spec.max_records
        if not is_ready(plan, self.spec.inputs):  # only rows of tables are read
            most = min(most, LOAD_RECORDS)
            spans = {tp: span if self.inputs.is_table(tp[0]) else (span[0], span[0]) for tp, span in spans.items()}
        takes = self._share(spans, most)
        self.idleness.look(time.monotonic())
        news = {tp for tp, p in plan.partitions.items() if ends.get(tp, p.end) > p.end}
        news |= self._in_transaction(plan, news, ends)
        partitions: dict[plans.TopicPartition, PartitionPlan] = {}
        for tp, p in plan.partitions.items():
            end = p.end + takes[tp]
            state = self._state(tp, p, takes[tp], tp in news)
            if tp not in ends and self.arrivals.has(tp):
                state = plans.IDLE  # a topic that is gone has no clock
            loaded = self.loads.found.get(tp) if p.loaded is None else p.loaded
            first_load = self.inputs.loaded(tp[0], loaded)
            clock = None if first_load and end <= first_load else log.clock_of(tp, end)
            partitions[tp] = PartitionPlan(end, state, clock, loaded)
        fresh = {tp: (self.spec.topic(tp[0]), tp[1]) for tp in ends.keys() - partitions.keys()}
        self._check_fresh(fresh, plan)
        if fresh:
            # this batch only adds new partitions to the plan, so that their start is recorded
            starts = log_starts(self.admin, list(fresh.values()))
            partitions.update({tp: PartitionPlan(starts[full], plans.EMPTY) for tp, full in fresh.items()})
        # a topic of a pattern that is gone stays in the plan: it may come back, and must then be the same one
        ids = {**plan.topic_ids, **{name: state.topic_id for name, state in self._topics().items()}}
        return Plan(self.spec.rules, ids, partitions, False, max(plan.tick, self.spec.first_tick))

    def _check_fresh(self, fresh: Collection[plans.TopicPartition], plan: Plan) -> None:
        """Raises SetupError for partitions that were added to a timed stream: the job has not waited for their
        records. Also for topics whose timestamps are not those that an input in arrival order needs."""
        named = {topic for topic, _ in fresh if needs_broker_time(self.inputs.of(topic))}
        check_timestamps(self.admin, [self.spec.topic(topic) for topic in named])
        for topic, partition in sorted(fresh):
            if topic in self.timed and any(known == topic for known, _ in plan.partitions):
                raise SetupError(
                    f"{self.spec.topic(topic)}, partition {partition}: expected the partitions that the timed stream "
                    "had at the start, this one is new.",
                    "write a new topic with more partitions, and read that with a new checkpoint.",
                )

    def _in_transaction(
        self, plan: Plan, news: set[plans.TopicPartition], there: Collection[plans.TopicPartition]
    ) -> set[plans.TopicPartition]:
        """The partitions that would be idle, but have records of an open transaction: these may be behind the others'
        and can be read as soon as it is committed."""
        due = [
            tp
            for tp, p in plan.partitions.items()
            if self._can_be_idle(tp) and tp in there and tp not in news and self.idleness.is_due(tp, p.state)
        ]
        if not due:
            return set()
        highs = high_watermarks(self.admin, [(self.spec.topic(topic), number) for topic, number in due])
        return {tp for tp in due if highs[self.spec.topic(tp[0]), tp[1]] > plan.partitions[tp].end}

    def _can_be_idle(self, tp: plans.TopicPartition) -> bool:
        """Only marks advance a partition of a timed stream, and the broker's clock one in arrival order."""
        return tp[0] not in self.timed and not self.arrivals.has(tp)

    def _state(self, tp: plans.TopicPartition, before: PartitionPlan, takes: int, news: bool) -> str:
        """A partition whose records only wait for their turn is not idle, because they may be behind the others'."""
        if not self._can_be_idle(tp):
            return plans.EMPTY if takes == 0 and before.state == plans.EMPTY else plans.ACTIVE
        state = self.idleness.state(tp, before.state, news)
        return before.state if takes == 0 and before.state == plans.EMPTY and state == plans.ACTIVE else state

    def _partitions(self) -> dict[plans.TopicPartition, FullPartition]:
        wanted = [(name, p) for name, state in self._topics().items() for p in state.partitions]
        return {tp: (self.spec.topic(tp[0]), tp[1]) for tp in wanted}

    def _topics(self) -> dict[str, TopicState]:
        now = time.monotonic()
        if now - self.topics_at >= METADATA_EVERY_S:
            self.topics = input_topics(self.admin, self.spec.inputs, self.spec.topic_prefix)
            self.topics_at = now
        return self.topics

    # Splitting a batch by event time

    def _share(self, spans: dict[plans.TopicPartition, tuple[int, int]], most: int) -> dict[plans.TopicPartition, int]:
        """Records to read by partition, at most so many, from (first offset, end of the log)."""
        backlog = {tp: max(0, end - first) for tp, (first, end) in spans.items()}
        firsts = {tp: spans[tp][0] for tp, n in backlog.items() if n}
        put_out = most_records(Path(self.spec.put_out_file))
        budget = min(most, most if put_out is None else put_out, self._fitting(backlog, firsts))
        if sum(backlog.values()) <= budget:
            return backlog
        points: dict[plans.TopicPartition, dict[int, int]] = {tp: {} for tp in backlog}
        step = max(1, budget // len(firsts))
        # not at the end of the log: a closing heartbeat far ahead would make the partition look sparse
        probes = {tp: min(step, backlog[tp] * 3 // 4) for tp in firsts}
        self._learn(points, firsts, dict.fromkeys(firsts, 0))
        for _ in range(PROBES):
            self._learn(points, firsts, probes)
            backlogs = {tp: Backlog(n, tuple(sorted(points[tp].items()))) for tp, n in backlog.items()}
            takes = plans.share(backlogs, budget)
            probes = {tp: takes[tp] for tp in firsts if 0 < takes[tp] < backlog[tp]}
        return takes

    def _fitting(self, backlog: dict[plans.TopicPartition, int], firsts: dict[plans.TopicPartition, int]) -> int:
        """Returns how many records fit into `BATCH_BYTES`, if all are as large as the sampled ones."""
        total = sum(backlog.values())
        if total * LARGEST_RECORD_BYTES <= BATCH_BYTES:
            return total
        now = time.monotonic()
        if now - self.sizes_at >= SIZES_EVERY_S:
            self.sizes, self.sizes_at = {}, now
            for probe in range(SIZE_PROBES):
                self.peek({tp: first + backlog[tp] * probe // SIZE_PROBES for tp, first in firsts.items()})
        backlog_bytes = sum(
            backlog[tp] * (sum(sizes) // len(sizes)) for tp, sizes in self.sizes.items() if tp in firsts
        )
        return max(1, total * BATCH_BYTES // max(1, backlog_bytes))

    def _learn(
        self,
        points: dict[plans.TopicPartition, dict[int, int]],
        firsts: dict[plans.TopicPartition, int],
        probes: dict[plans.TopicPartition, int],
    ) -> None:
        """Samples the event times of the records at these distances from the head."""
        for tp, (offset, event_time_ms) in self.peek({tp: firsts[tp] + n for tp, n in probes.items()}).items():
            points[tp][offset - firsts[tp]] = event_time_ms

    def peek(self, offsets: dict[plans.TopicPartition, int]) -> dict[plans.TopicPartition, tuple[int, int]]:
        """Offset and event time (ms) of the first record at or after each offset that decodes."""
        if self._peeker is None:
            s = self.spec
            self._peeker = range_consumer(
                s.bootstrap_servers, s.extra, s.group, **{"fetch.message.max.bytes": 32_768, "fetch.wait.max.ms": 10}
            )
        first_events: dict[plans.TopicPartition, tuple[int, int]] = {}
        examined = dict.fromkeys(offsets, 0)
        self._peeker.assign([TopicPartition(self.spec.topic(t), p, offset) for (t, p), offset in offsets.items()])
        prefix = len(self.spec.topic_prefix)
        deadline = time.monotonic() + PEEK_S
        while examined and time.monotonic() < deadline:
            for message in self._peeker.consume(len(examined), 0.05):
                if message.error() is not None and not is_end_of_partition(message):
                    continue  # it has no place; this only costs the peek
                topic, number, offset = place(message)
                tp = (topic[prefix:], number)
                if message.error() is not None:
                    examined.pop(tp, None)
                    continue
                if tp not in examined:
                    continue  # fetched with the record that was looked for
                event_time_ms = self._event_time(tp[0], message)
                self.sizes.setdefault(tp, []).append(len(message))
                examined[tp] += 1
                if event_time_ms is not None:
                    first_events[tp] = (offset, event_time_ms)
                if event_time_ms is not None or examined[tp] >= PEEK_RECORDS:
                    del examined[tp]
        self._peeker.unassign()
        return first_events

    def _event_time(self, topic: str, message: Any) -> int | None:
        try:
            return self.times.event_time(self.inputs.first(topic)[0], letter_of(message))
        except (Rejected, StepError, UnknownSchemaId):  # a peek decides nothing; the batch itself waits for the id
            return None
