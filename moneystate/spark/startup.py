"""The looks that a start takes before it writes anything. Each raises the error that the user is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka.admin import AdminClient

from moneystate.api.json_topic import AVRO
from moneystate.engine import deadletter
from moneystate.engine import plan as plans
from moneystate.engine.marker import Marker, marker_key
from moneystate.errors import CheckpointError, MarkerError, RetentionError, RulesError, SetupError
from moneystate.kafka import sizes
from moneystate.kafka.offsets import log_ends, log_starts, topic_states
from moneystate.kafka.topics import partition_counts
from moneystate.ports.service import STATE_VERSIONS, TIMED, TOPICS, JobSpec
from moneystate.spark.checkpoint import FORMAT, Checkpoint

CHANGELOG_PARTITIONS = "changelog_partitions"  # among the settings; not of a checkpoint of an earlier version


def settings_of(job: str, key_groups: int, partitions: int, application_id: str, topic_prefix: str) -> dict[str, Any]:
    """The settings that are fixed for the life of a checkpoint."""
    return {
        "format": FORMAT,
        "job": job,
        "key_groups": key_groups,
        "partitions": partitions,
        "application_id": application_id,
        "topic_prefix": topic_prefix,
    }


def check_changelog(admin: AdminClient, checkpoint: Checkpoint, topic: str, finish_batch: bool) -> int | None:
    """The number of the changelog's partitions among which the job chooses; None where none is chosen yet.

    Raises SetupError where the topic has another number by now: who chose by that would look for entries where they
    are not. A planned batch may be finished all the same, by the number that was chosen.
    """
    chosen = None if checkpoint.is_new() else checkpoint.settings().get(CHANGELOG_PARTITIONS)
    there = partition_counts(admin).get(topic)
    if chosen is not None and there is not None and there != chosen and not (finish_batch and there > chosen):
        raise SetupError(
            f"{topic}: expected {chosen} partitions, as when the checkpoint was made, found {there}: where an entry "
            "stands depends on their number.",
            "start a new checkpoint from a savepoint: moneystate checkpoint export, then enrich --initial-state.",
        )
    return chosen


def check_timed(admin: AdminClient, topics: Sequence[str], writers: int) -> None:
    """Each partition of a timed stream is written by one output partition alone, and each of these needs one. Raises
    SetupError; a topic that is missing is created so."""
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
) -> None:
    if checkpoint.settings().get("format") != FORMAT:
        raise CheckpointError(
            f"{checkpoint.root}: expected checkpoint format {FORMAT}, found {checkpoint.settings().get('format')}.",
            "run it with the version that made it.",
        )
    checkpoint.check_settings(settings)
    checkpoint.check_version()
    checkpoint.check_not_drained(reads_replies)
    _check_state_versions(checkpoint, rules)
    check_timed_inputs(checkpoint.latest_rules(), rules, str(checkpoint.root))
    if finish_batch and checkpoint.planned_rules() is None:
        raise CheckpointError(
            f"{checkpoint.root}: expected a planned batch to finish, all are finished.", "start without --finish-batch."
        )
    checkpoint.check_rules(rules)


def changed_timed(before: Mapping[str, Any], rules: Mapping[str, Any]) -> list[str]:
    """Inputs that have become timed streams, or are none any more. What is buffered of them has no place in the other
    order."""
    timed = {*before.get(TIMED, [])} ^ {*rules.get(TIMED, [])}
    return sorted(timed & {*before.get(TOPICS, {})})


def check_timed_inputs(before: Mapping[str, Any], rules: Mapping[str, Any], where: str) -> None:
    """Raises RulesError for those of `changed_timed`."""
    for topic in changed_timed(before, rules):
        kinds = ("an ordinary input", "a timed stream")
        is_timed = topic in rules.get(TIMED, [])
        raise RulesError(
            f"{where}: expected {kinds[not is_timed]} in {topic}, as when it was made, found {kinds[is_timed]}.",
            "declare it as before, or begin with a new checkpoint and no state.",
        )


def _check_state_versions(checkpoint: Checkpoint, rules: Mapping[str, Any]) -> None:
    """Of a plain service: a program that lacks a version of its records cannot read what a newer one wrote."""
    known, written = rules.get(STATE_VERSIONS), checkpoint.latest_rules().get(STATE_VERSIONS)
    if known is not None and written is not None and written > known:
        raise CheckpointError(
            f"{checkpoint.root}: expected state of the {known} released versions of records that this program has, "
            f"found that of a program with {written}.",
            "start the newer program, or an older checkpoint or savepoint.",
        )


def check_markers(
    checkpoint: Checkpoint, markers: Mapping[bytes, Marker], application_id: str, partitions: int, new_epoch: bool
) -> list[str]:
    """The epochs that this checkpoint replaces. Raises MarkerError where Kafka knows another checkpoint than this
    one."""
    mine = [m for p in range(partitions) if (m := markers.get(marker_key(application_id, p))) is not None]
    epoch = checkpoint.epoch()
    if checkpoint.is_new():
        others = sorted({m.epoch for m in mine})
        if others and not new_epoch:
            raise MarkerError(
                f"{checkpoint.root}: expected the checkpoint that wrote the output of application {application_id}, "
                "found a new one: it would write everything again.",
                "give the old checkpoint folder, start anew on purpose with --new-epoch, or take another "
                "--application-id.",
            )
        return others
    replaced = set(checkpoint.start()["superseded"])
    others = sorted({m.epoch for m in mine} - {epoch} - replaced)
    if others:
        raise MarkerError(
            f"{checkpoint.root}: expected markers of this checkpoint (epoch {epoch}), found those of {others[0]}: "
            "another checkpoint has taken over this application.",
            "go on with that one, or give this one an --application-id of its own.",
        )
    _check_not_rolled_back(checkpoint, [m for m in mine if m.epoch == epoch])
    return []


def _check_not_rolled_back(checkpoint: Checkpoint, mine: list[Marker]) -> None:
    ahead = max((m.next_batch for m in mine), default=0)
    if ahead > checkpoint.last_planned() + 1:
        raise MarkerError(
            f"{checkpoint.root}: expected to be at batch {ahead} as Kafka's markers are, is at "
            f"{checkpoint.last_planned()}: the checkpoint was rolled back or restored.",
            "restore the newest copy, or start a new checkpoint with --new-epoch.",
        )


def check_plan(
    checkpoint: Checkpoint, markers: Mapping[bytes, Marker], settings: Mapping[str, Any], rules: Mapping[str, Any]
) -> None:
    """An unfinished batch that another program planned may be run by this one where nothing of it is written: what
    ended it may be mended in this one. Raises RulesError where a part is."""
    changed = checkpoint.changed_rules(rules)
    if not changed:
        return
    planned, written = checkpoint.last_planned(), written_partitions(checkpoint, markers, settings)
    if written:
        names = ", ".join(changed)
        raise RulesError(
            f"{checkpoint.root}: expected the program that planned batch {planned}, as output partition "
            f"{written[0]} has it already; this one differs in {names}.",
            f"finish it with --finish-batch and a program of the same {names}: mend in it what ended the batch, if "
            "anything did; or start a new checkpoint from a savepoint or with --new-epoch.",
        )


def written_partitions(
    checkpoint: Checkpoint, markers: Mapping[bytes, Marker], settings: Mapping[str, Any]
) -> list[int]:
    """The output partitions that have the batch that is planned and not finished; none where there is no such batch."""
    planned, epoch = checkpoint.last_planned(), checkpoint.epoch()
    if checkpoint.planned_rules() is None:
        return []
    keys = [(p, marker_key(settings["application_id"], p)) for p in range(settings["partitions"])]
    return [p for p, key in keys if key in markers and _has(markers[key], epoch, planned)]


def written_part(checkpoint: Checkpoint, markers: Mapping[bytes, Marker]) -> str:
    """What there is to say of a batch that ends with an error, as far as its markers are read; empty: nothing."""
    written = written_partitions(checkpoint, markers, checkpoint.settings())
    if not written:
        return ""
    names = ", ".join(map(str, written))
    return f"Output partition {names} has written its part of batch {checkpoint.last_planned()} already."


def other_code(checkpoint: Checkpoint, markers: Mapping[bytes, Marker], settings: Mapping[str, Any], code: str) -> str:
    """What there is to say of a batch that one program has begun to write and this one ends; empty: nothing."""
    written = written_partitions(checkpoint, markers, settings)
    if not written or checkpoint.code() in ("", code):
        return ""
    return (
        f"{checkpoint.root}: the service's functions have changed, and output partition {written[0]} has batch "
        f"{checkpoint.last_planned()} already. This run writes the rest of the batch. If the change is more than a "
        "mend of what ended the batch: stop, and finish it with the functions as they were and --finish-batch."
    )


def _has(marker: Marker, epoch: str | None, batch: int) -> bool:
    return marker.epoch == epoch and marker.next_batch > batch


def check_retention(admin: AdminClient, checkpoint: Checkpoint, topic_prefix: str) -> None:
    """The topics must be those that were read, with the next records and all that was planned still in their logs."""
    plan = plans.from_offset(checkpoint.offset(checkpoint.last_committed()))
    planned = plans.from_offset(checkpoint.offset(checkpoint.last_planned()))
    check_logs(admin, plan, planned, topic_prefix)


def check_logs(admin: AdminClient, plan: plans.Plan, planned: plans.Plan, topic_prefix: str) -> None:
    """The logs must be those of `plan`, which is to go on, and reach from there to the end of `planned` at least.

    Raises SetupError for other topics, RetentionError for records that are gone.
    """
    states = topic_states(admin, [topic_prefix + t for t in plan.topic_ids])
    for name, topic_id in plan.topic_ids.items():
        if states[topic_prefix + name].topic_id != topic_id:
            raise SetupError(
                f"{topic_prefix}{name}: expected the topic that was read so far, it was deleted and made anew.",
                "start a new checkpoint for the new topic.",
            )
    wanted = {(topic_prefix + t, p): planned.end for (t, p), planned in plan.partitions.items()}
    for tp, first in log_starts(admin, wanted).items():
        if first > wanted[tp]:
            raise RetentionError(
                f"{tp[0]}, partition {tp[1]}: expected to go on at offset {wanted[tp]}, the log begins at {first}.",
                "start anew from a savepoint or --starting-offsets, and raise the topic's retention.",
            )
    for tp, end in log_ends(admin, wanted).items():
        known = planned.partitions.get((tp[0].removeprefix(topic_prefix), tp[1]))
        if known is not None and end < known.end:
            raise RetentionError(
                f"{tp[0]}, partition {tp[1]}: expected a log up to offset {known.end}, it ends at {end}: "
                "records were lost.",
                "restore the topic, or start a new checkpoint.",
            )
