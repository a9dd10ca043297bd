"""The initial state of a new checkpoint: a savepoint that fits, or nothing when it takes over from another
checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from moneystate.engine import plan as plans
from moneystate.engine.items import Output
from moneystate.engine.keys import is_engines
from moneystate.engine.marker import Marker, marker_key
from moneystate.engine.plan import Plan
from moneystate.engine.processor import InputTopic
from moneystate.errors import ConfigError, MarkerError, SavepointError
from moneystate.job import refusals
from moneystate.job.storage.folder import folder_at
from moneystate.job.storage.savepoints import fetched, is_savepoint
from moneystate.kafka.input_topics import topics_at_start
from moneystate.kafka.starting import offsets_from_file
from moneystate.ports.service import AskedAgain
from moneystate.savepoint.format import Savepoint
from moneystate.savepoint.manifest import NAME, Manifest

FLAG = "--initial-state"
OFFSETS_FLAG = "--initial-offsets"


class SavepointInitialState:
    """A savepoint as `moneystate.kafka.publish.InitialState`. If it has no output, its records are the open requests,
    because nobody may know of them in the new place."""

    def __init__(self, savepoint: Savepoint, asked_again: AskedAgain) -> None:
        self.savepoint = savepoint
        self.asked_again = asked_again

    @property
    def watermark(self) -> int:
        return self.savepoint.manifest.watermark

    def entries(self, group: int) -> Iterator[tuple[bytes, bytes]]:
        return (entry for entry in self.savepoint.entries(group) if not is_engines(entry[0]))

    def outputs(self, group: int) -> Iterator[Output]:
        if self.savepoint.manifest.output:
            yield from self.savepoint.outputs(group)
            return
        for key, value in self.entries(group):
            request = self.asked_again(key, value)
            if request is not None:
                yield request


def note_of(address: str) -> dict[str, str]:
    """The checkpoint's record of the savepoint that it started from."""
    folder = folder_at(address, FLAG)
    return {"folder": folder.name, "manifest": hashlib.sha256(folder.read(NAME)).hexdigest()}


def open_initial(folder: str) -> Savepoint:
    """Raises SavepointError, ConfigError."""
    return Savepoint(fetched(folder, FLAG))


def check_same(folder: str, note: Mapping[str, str] | None) -> None:
    """The same command may start a checkpoint again. Raises SavepointError if it began with something else."""
    if note is None or (is_savepoint(folder, FLAG) and note_of(folder)["manifest"] != note["manifest"]):
        began = "none" if note is None else note["folder"]
        raise SavepointError(
            f"--initial-state {folder}: expected the savepoint that the checkpoint began with ({began}).",
            "leave the flag out to continue, or use a new checkpoint folder.",
        )


def check_fits(manifest: Manifest, job: str, key_groups: int, rules: Mapping[str, Any], streams: list[str]) -> None:
    """Raises SavepointError or RulesError that names what differs."""
    refusals.raise_first(refusals.of_savepoint(manifest, job, key_groups, rules, streams))


def check_origin(
    manifest: Manifest, markers: Mapping[bytes, Marker], application_id: str, epoch: str | None = None
) -> None:
    """Markers must be from the savepoint's own checkpoint, and not newer. Raises MarkerError for others: the savepoint
    does not have their batches, so they would be written again. `epoch`: of the checkpoint that starts from the
    savepoint, which may have begun to write."""
    for number in range(manifest.partitions):  # others may have the markers of checkpoints before
        marker = markers.get(marker_key(application_id, number))
        if marker is None or marker.epoch == epoch:
            continue
        if marker.epoch not in manifest.origins:
            raise MarkerError(
                f"--initial-state: expected no output of application {application_id} but the savepoint's own, found "
                f"that of another checkpoint (epoch {marker.epoch}).",
                "take over from it on purpose with --new-epoch, or give an --application-id of its own.",
            )
        if marker.epoch == manifest.origins[-1] and marker.next_batch > manifest.origin_batch:
            raise MarkerError(
                f"--initial-state: expected output up to batch {manifest.origin_batch} as in the savepoint, Kafka has "
                f"batches before {marker.next_batch}: later batches would be written again.",
                "make a savepoint of the newest state, or roll back on purpose with --new-epoch.",
            )


def start_plan(
    admin: AdminClient, manifest: Manifest, prefix: str, inputs: list[InputTopic], rules_hash: str, offsets_file: str
) -> Plan:
    """The plan to continue from. `offsets_file`: the value of `--initial-offsets`, or empty.

    Raises ConfigError, SavepointError if the topics are not those of the savepoint, and SetupError if one is missing.
    """
    here = {name: state.topic_id for name, state in topics_at_start(admin, inputs, prefix).items()}
    if manifest.plan is None:
        known = Plan(rules_hash, here, {})
    else:
        known = plans.from_offset(manifest.plan)
    if offsets_file:
        names = [t.name for t in inputs]
        return _elsewhere(known, here, rules_hash, offsets_from_file(Path(offsets_file), names, OFFSETS_FLAG))
    if manifest.plan is None:
        raise SavepointError(
            "--initial-state: expected a savepoint with offsets, found one of an archive without.",
            f"say with {OFFSETS_FLAG} FILE where to go on in each partition.",
        )
    for name, topic_id in known.topic_ids.items():
        if here.get(name, topic_id) != topic_id:
            raise SavepointError(
                f"{prefix}{name}: expected the topic of the savepoint, found another of this name (created again, "
                "or on another cluster): its offsets mean other records.",
                f"say with {OFFSETS_FLAG} FILE where to go on in each partition.",
            )
    return Plan(rules_hash, {**known.topic_ids, **here}, known.partitions, False, known.tick)


def _elsewhere(known: Plan, here: dict[str, str], rules_hash: str, offsets: Mapping[plans.TopicPartition, int]) -> Plan:
    """The plan with the offsets of other topics. Every partition must be named: no gap, no overlap."""
    missing = sorted(known.partitions.keys() - offsets.keys())
    if missing:
        raise ConfigError(
            f"{OFFSETS_FLAG}: expected an offset for each partition of the savepoint, found none for {missing[0][0]}, "
            f"partition {missing[0][1]}.",
            "add it to the file.",
        )
    states = {tp: known.partitions[tp].state if tp in known.partitions else plans.EMPTY for tp in offsets}
    partitions = {tp: plans.PartitionPlan(offset, states[tp]) for tp, offset in offsets.items()}
    return Plan(rules_hash, here, partitions, False, known.tick)
