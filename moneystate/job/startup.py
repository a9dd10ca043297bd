"""The checks of a start, before it writes anything. Each raises the error that the user sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka.admin import AdminClient

from moneystate.engine import deadletter
from moneystate.engine import plan as plans
from moneystate.engine.inputs import Inputs
from moneystate.engine.marker import Marker, marker_key
from moneystate.engine.processor import InputTopic
from moneystate.errors import MarkerError, RetentionError, RulesError, SetupError
from moneystate.job import refusals
from moneystate.job.checkpoint import FORMAT, Checkpoint
from moneystate.kafka import sizes
from moneystate.kafka.offsets import existing_states, log_ends, log_starts, topic_states
from moneystate.kafka.topics import partition_counts
from moneystate.ports.service import JobSpec
from moneystate.runtime.json_topic import AVRO

# Names of settings. `changelog_settings` completes them in a checkpoint of an earlier version.
CHANGELOG_PARTITIONS, CHANGELOG_ID = "changelog_partitions", "changelog_id"
WRITE_CHANGELOG_AGAIN = (
    "start a new checkpoint, which writes the changelog again: moneystate rescale makes it, also with the same numbers."
)


def settings_of(
    job: str, key_groups: int, partitions: int, application_id: str, topic_prefix: str, local: bool = False
) -> dict[str, Any]:
    """The settings that are fixed for the life of a checkpoint."""
    return {
        "format": FORMAT,
        "job": job,
        "key_groups": key_groups,
        "partitions": partitions,
        "application_id": application_id,
        "topic_prefix": topic_prefix,
        **({"local": True} if local else {}),
    }


def changelog_settings(admin: AdminClient, topic: str) -> dict[str, Any]:
    """Over how many partitions the job spreads entries, and Kafka's id of the topic."""
    state = topic_states(admin, [topic])[topic]
    return {CHANGELOG_PARTITIONS: len(state.partitions), CHANGELOG_ID: state.topic_id}


def check_changelog(admin: AdminClient, checkpoint: Checkpoint, topic: str, finish_batch: bool) -> int | None:
    """The number of changelog partitions over which the job spreads entries; None: not chosen yet.

    Raises SetupError if the topic is another one than when the checkpoint was made, or has another number of
    partitions: readers that use that number would look for entries in the wrong partitions. A planned batch may still
    be finished, with the chosen number.
    """
    if checkpoint.is_new():
        return None
    made_with = checkpoint.settings()
    there = changelog_settings(admin, topic) if topic in partition_counts(admin) else {}
    if not finish_batch:
        _check_same_changelog(topic, made_with, there)
    chosen: int | None = made_with.get(CHANGELOG_PARTITIONS)
    count: int | None = there.get(CHANGELOG_PARTITIONS)
    if chosen is None or count is None or count == chosen or (finish_batch and count > chosen):
        return chosen
    raise SetupError(
        f"{topic}: expected {chosen} partitions, as when the checkpoint was made, found {count}: the partition of an "
        "entry depends on their number.",
        WRITE_CHANGELOG_AGAIN,
    )


def _check_same_changelog(topic: str, made_with: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    """`there` is empty if the topic does not exist."""
    if made_with.get(CHANGELOG_ID, there.get(CHANGELOG_ID)) != there.get(CHANGELOG_ID):
        instead = "a new one of this name" if there else "none"
        raise SetupError(
            f"{topic}: expected the topic that was written so far, found {instead}: "
            "entries that do not change any more would be missing from it.",
            WRITE_CHANGELOG_AGAIN,
        )


def check_timed(admin: AdminClient, topics: Sequence[str], writers: int) -> None:
    """Checks that timed streams have a partition for each output partition of their writer, because only one may write
    to a partition. Raises SetupError. Missing topics are created with enough."""
    there = partition_counts(admin)
    for topic in topics:
        if there.get(topic, writers) < writers:
            raise SetupError(
                f"{topic}: expected at least {writers} partitions, one for each output partition of its writer, found "
                f"{there[topic]}.",
                f"give --partitions {there[topic]}, or write a new topic with more partitions.",
            )


def message_bytes(spec: JobSpec, formats: Mapping[str, str]) -> dict[str, int]:
    """The `max.message.bytes` that each output topic needs; topics without prefix."""
    largest = {**spec.largest, spec.streams[spec.dead_letter_stream]: deadletter.LARGEST}
    names = [*spec.streams, spec.changelog]
    return {name: sizes.message_bytes(largest.get(name, 0), formats.get(name, AVRO)) for name in names}


def check_existing(
    checkpoint: Checkpoint,
    settings: Mapping[str, Any],
    rules: Mapping[str, Any],
    finish_batch: bool,
    reads_replies: bool,
    drain_until_ms: int | None = None,
) -> None:
    """Raises CheckpointError."""
    refusals.raise_first(
        refusals.of_checkpoint(checkpoint, settings, rules, finish_batch, reads_replies, drain_until_ms)
    )


def check_markers(
    checkpoint: Checkpoint, markers: Mapping[bytes, Marker], application_id: str, partitions: int, new_epoch: bool
) -> list[str]:
    """The epochs that this checkpoint replaces. Raises MarkerError if the markers are those of another checkpoint."""
    mine = [m for p in range(partitions) if (m := markers.get(marker_key(application_id, p))) is not None]
    epoch = checkpoint.epoch()
    if checkpoint.is_new():
        others = sorted({m.epoch for m in mine})
        if others and not new_epoch:
            raise MarkerError(
                f"{checkpoint.root}: expected the checkpoint that wrote the output of application {application_id}, "
                "found a new one: it would write everything again.",
                "give the old checkpoint folder, start from the beginning on purpose with --new-epoch, or use another "
                "--application-id.",
            )
        return others
    replaced = set(checkpoint.start()["superseded"])
    others = sorted({m.epoch for m in mine} - {epoch} - replaced)
    if others:
        raise MarkerError(
            f"{checkpoint.root}: expected markers of this checkpoint (epoch {epoch}), found those of {others[0]}: "
            "another checkpoint has taken over this application.",
            "use that one, or give this one its own --application-id.",
        )
    _check_not_rolled_back(checkpoint, [m for m in mine if m.epoch == epoch])
    return []


def _check_not_rolled_back(checkpoint: Checkpoint, mine: list[Marker]) -> None:
    ahead = max((m.next_batch for m in mine), default=0)
    if ahead > checkpoint.last_planned() + 1:
        raise MarkerError(
            f"{checkpoint.root}: expected to be at batch {ahead} as Kafka's markers are, found batch "
            f"{checkpoint.last_planned()}: the checkpoint was rolled back or restored.",
            "restore the newest copy, or start a new checkpoint with --new-epoch.",
        )


def check_plan(
    checkpoint: Checkpoint, markers: Mapping[bytes, Marker], settings: Mapping[str, Any], rules: Mapping[str, Any]
) -> None:
    """This program may run an unfinished batch of another program if no part of it is written: it may have the fix for
    the error that ended the batch. Raises RulesError if a part is written."""
    changed = checkpoint.changed_rules(rules)
    if not changed:
        return
    planned, written = checkpoint.last_planned(), written_partitions(checkpoint, markers, settings)
    if written:
        names = ", ".join(changed)
        raise RulesError(
            f"{checkpoint.root}: expected the program that planned batch {planned}, as output partition "
            f"{written[0]} has it already; this one differs in {names}.",
            f"finish it with --finish-batch and a program with the same {names}, with a fix for the error that ended "
            "the batch, if there was one; or start a new checkpoint from a savepoint or with --new-epoch.",
        )


def written_partitions(
    checkpoint: Checkpoint, markers: Mapping[bytes, Marker], settings: Mapping[str, Any]
) -> list[int]:
    """The output partitions that have written the unfinished batch; empty if all batches are finished."""
    planned, epoch = checkpoint.last_planned(), checkpoint.epoch()
    if checkpoint.planned_rules() is None:
        return []
    keys = [(p, marker_key(settings["application_id"], p)) for p in range(settings["partitions"])]
    return [p for p, key in keys if key in markers and _has(markers[key], epoch, planned)]


def written_part(checkpoint: Checkpoint, markers: Mapping[bytes, Marker]) -> str:
    """Says for the error of a batch which output partitions have already written it; empty: none that is known."""
    written = written_partitions(checkpoint, markers, checkpoint.settings())
    if not written:
        return ""
    names = ", ".join(map(str, written))
    return f"Output partition {names} has written its part of batch {checkpoint.last_planned()} already."


def other_code(checkpoint: Checkpoint, markers: Mapping[bytes, Marker], settings: Mapping[str, Any], code: str) -> str:
    """A warning, if another program has begun to write the batch that this one will finish; empty: none."""
    written = written_partitions(checkpoint, markers, settings)
    if not written or checkpoint.code() in ("", code):
        return ""
    return (
        f"{checkpoint.root}: the service's functions have changed, and output partition {written[0]} has batch "
        f"{checkpoint.last_planned()} already. This run writes the rest of the batch. If the change is more than a "
        "fix of the error that ended the batch: stop, and finish it with the old functions and --finish-batch."
    )


def _has(marker: Marker, epoch: str | None, batch: int) -> bool:
    return marker.epoch == epoch and marker.next_batch > batch


def check_retention(
    admin: AdminClient, checkpoint: Checkpoint, topic_prefix: str, inputs: Iterable[InputTopic] = ()
) -> None:
    """Checks that the topics are those that were read, and that their logs still have the next and all planned
    records."""
    plan = plans.from_offset(checkpoint.offset(checkpoint.last_committed()))
    planned = plans.from_offset(checkpoint.offset(checkpoint.last_planned()))
    check_logs(admin, plan, planned, topic_prefix, inputs)


def check_logs(
    admin: AdminClient, plan: plans.Plan, planned: plans.Plan, topic_prefix: str, inputs: Iterable[InputTopic] = ()
) -> None:
    """Checks that the logs are those of `plan`, and reach at least from its ends to the ends of `planned`. A topic of a
    pattern of `inputs` may be gone if all of it that is planned has been read.

    Raises SetupError for other topics, RetentionError for records that are gone.
    """
    patterns = Inputs(inputs)
    to_read = {topic for (topic, number), p in planned.partitions.items() if plan.end(topic, number) < p.end}
    may_be_gone = {topic for topic in plan.topic_ids if patterns.is_of_pattern(topic) and topic not in to_read}
    states = topic_states(admin, [topic_prefix + t for t in plan.topic_ids if t not in may_be_gone])
    states |= existing_states(admin, [topic_prefix + t for t in may_be_gone])
    for name, topic_id in plan.topic_ids.items():
        if topic_prefix + name in states and states[topic_prefix + name].topic_id != topic_id:
            raise SetupError(
                f"{topic_prefix}{name}: expected the topic that was read so far, found a new one of this name.",
                "start a new checkpoint for the new topic.",
            )
    wanted = {
        (topic_prefix + t, p): planned.end for (t, p), planned in plan.partitions.items() if topic_prefix + t in states
    }
    for tp, first in log_starts(admin, wanted).items():
        if first > wanted[tp]:
            raise RetentionError(
                f"{tp[0]}, partition {tp[1]}: expected to continue at offset {wanted[tp]}, found a log from {first} "
                "on.",
                "start a new checkpoint from a savepoint or --starting-offsets, and raise the topic's retention.",
            )
    for tp, end in log_ends(admin, wanted).items():
        known = planned.partitions.get((tp[0].removeprefix(topic_prefix), tp[1]))
        if known is not None and end < known.end:
            raise RetentionError(
                f"{tp[0]}, partition {tp[1]}: expected a log up to offset {known.end}, it ends at {end}: "
                "records were lost.",
                "restore the topic, or start a new checkpoint.",
            )
