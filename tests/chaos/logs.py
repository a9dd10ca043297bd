"""What may happen to topics between two runs, and what the documentation says comes of it (docs/operations.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from moneystate.engine import plan as plans
from moneystate.kafka.offsets import high_watermarks
from tests.chaos.schedule import Fault
from tests.chaos.targets import move_to_partition
from tests.waiting import until

if TYPE_CHECKING:
    from tests.chaos.trial import Trial

PART = 0.6
SETUP, CHECKPOINT = 3, 4  # exit codes
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
    "max.compaction.lag.ms": "100",
}


def partitions(trial: Trial, fault: Fault) -> str:
    trial.run_part(PART)
    target, before = trial.target, trial.schedule.topic_partitions
    if fault.variant == "inputs":
        topic = target.topics[fault.chance % len(target.topics)]
        _add(trial, topic, before + 1)
        highest = max(time for time in target.times[: trial.sent] if time is not None)
        move_to_partition(target, topic, trial.sent, before, highest)
    elif fault.variant == "outputs":
        trial.widened.append({topic: _ends(trial, topic) for topic in target.outputs})
        for topic in (*target.outputs, target.commits):
            _add(trial, topic, max(before, trial.schedule.partitions) + 1)
    else:
        _add(trial, target.changelog, before + 1)
        trial.send()
        done = trial.ended(trial.start(trial.world.first))
        if trial.refused(done, SETUP):
            _move(trial)
    return ""


def _move(trial: Trial) -> None:
    """The state goes to a new checkpoint, which writes all of it to the changelog again."""
    out = trial.folder / "exported"
    done = trial.command("checkpoint", "export", "--checkpoint", str(trial.folder_of_checkpoint), "--out", str(out))
    if done.code == 0:
        trial.folder_of_checkpoint = trial.folder / "moved"
        trial.flags += ["--initial-state", str(out)]


def _ends(trial: Trial, topic: str) -> dict[int, int]:
    """Returns the end of each partition of an output, after a run that has ended."""
    places = [(trial.prefix + topic, number) for number in range(trial.partitions(topic))]
    return {number: end for (_, number), end in high_watermarks(trial.cluster.admin, places).items()}


def _add(trial: Trial, topic: str, total: int) -> None:
    name = trial.prefix + topic
    trial.cluster.grow({topic: total})

    def seen() -> int:
        return len(trial.world.producer.list_topics(name, timeout=10).topics[name].partitions)

    until(lambda: seen() >= total, lambda: f"the producer sees {seen()} partitions of {name}", 90)


def topics(trial: Trial, fault: Fault) -> str:
    """One is deleted and created again. A changelog can be written again. What was in another topic is lost, so the
    way on is a checkpoint from the beginning, with all outputs written again."""
    trial.run_part(PART)
    target = trial.target
    topic = {"input": target.topics[0], "commits": target.commits, "changelog": target.changelog}[fault.variant]
    _recreate(trial, topic)
    if fault.variant == "input":
        trial.resend(topic)
    trial.send()
    done = trial.ended(trial.start(trial.world.first))
    if fault.variant == "changelog":
        if trial.refused(done, SETUP):
            _move(trial)
        return ""
    trial.refused(done, SETUP if fault.variant == "input" else CHECKPOINT)
    begin_anew(trial)
    return ""


def begin_anew(trial: Trial) -> None:
    """A checkpoint from the beginning writes all outputs again."""
    for output in (*trial.target.outputs, trial.target.changelog):
        trial.cluster.delete(trial.prefix + output)
    trial.folder_of_checkpoint = trial.folder / "again"
    trial.flags += ["--new-epoch"]


def _recreate(trial: Trial, topic: str) -> None:
    count, settings = trial.partitions(topic), _settings(trial, topic)
    trial.cluster.delete(trial.prefix + topic)
    trial.cluster.create(topic, count, **settings)


def _settings(trial: Trial, topic: str) -> dict[str, str]:
    """What the topic's creator has set."""
    resource = ConfigResource(ResourceType.TOPIC, trial.prefix + topic)
    (entries,) = (future.result() for future in trial.cluster.admin.describe_configs([resource]).values())
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in entries.items() if entry.source == own}


def retention(trial: Trial, fault: Fault) -> str:
    target = trial.target
    if fault.variant == "compact outputs":
        trial.run_part(PART / 2)
        for topic in (target.changelog, target.commits):
            _configure(trial, topic, COMPACTED)
        trial.run_part(PART)
        return ""
    trial.run_part(PART)
    read = plans.from_offset(trial.checkpoint.offset(trial.checkpoint.last_committed())).partitions
    if fault.variant == "read":
        _delete_before(trial, {place: planned.end for place, planned in read.items()})
        trial.replayable = False
        return ""
    if fault.variant == "unread":
        trial.send()
        (topic, number), planned = sorted(read.items())[fault.chance % len(read)]
        ends = [r.offset + 1 for r in target.log if (r.topic, r.partition) == (topic, number)]
        if max(ends, default=0) < planned.end + 2:
            return "the partition had no more records"
        _delete_before(trial, {(topic, number): planned.end + 1})
        trial.cut_short = trial.refused(trial.ended(trial.start(trial.world.first)), SETUP)
        return ""
    topic = target.topics[fault.chance % len(target.topics)]
    _configure(trial, topic, {"cleanup.policy": "compact"})
    trial.refused(trial.ended(trial.start(trial.world.first)), SETUP)
    _configure(trial, topic, {"cleanup.policy": "delete"})
    return ""


def _delete_before(trial: Trial, offsets: dict[tuple[str, int], int]) -> None:
    wanted = [TopicPartition(trial.prefix + topic, number, offset) for (topic, number), offset in offsets.items()]
    for future in trial.cluster.admin.delete_records(wanted).values():
        future.result()


def _configure(trial: Trial, topic: str, settings: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, trial.prefix + topic, incremental_configs=entries)
    for future in trial.cluster.admin.incremental_alter_configs([resource]).values():
        future.result()
