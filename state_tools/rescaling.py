"""Makes a new checkpoint with other key groups or partitions from the checkpoint of a stopped job.

1. *checked*: `check`, also while the job runs. Nothing is written.
2. *exported*: the state is a savepoint in the folder of the new checkpoint.
3. *begun*: the new checkpoint has its settings. The next start of the job with it publishes the state and loads it.

A kill leaves the old checkpoint as it was, and the same command continues. Until the start with the new checkpoint has
taken over (`moneystate.kafka.claims`, step 3), the job can still go on with the old one. Starts with the new one are
then refused, because it lacks the batches since. After step 3 starts with the old one are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from moneystate.errors import CheckpointError
from moneystate.job import startup
from moneystate.job.checkpoint import OWN, Checkpoint
from moneystate.job.local_path import is_local
from moneystate.job.preparation import Preparation
from moneystate.job.run_options import RunOptions
from moneystate.job.storage.folder import child
from moneystate.job.storage.savepoints import is_savepoint, manifest_of, new_savepoint
from moneystate.job.task_specs import TaskSpecs
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.markers import read_markers
from moneystate.kafka.topics import partition_counts
from moneystate.kafka.transactions import Application
from moneystate.ports.service import JobSpec, ServiceSpec
from moneystate.savepoint.manifest import Manifest
from state_tools.export import check_can_go_on, export, open_checkpoint

PLACE = "--new-checkpoint"


@dataclass(frozen=True)
class Target:
    """Holds what the new checkpoint is to be."""

    checkpoint: str
    key_groups: int
    partitions: int


class Rescaling:
    """One command. Raises MoneystateError."""

    def __init__(self, service: ServiceSpec, old: str, target: Target, servers: str, kafka: dict[str, str]) -> None:
        self.service = service
        self.target = target
        self.servers, self.kafka = servers, kafka
        self.old, self.new = open_checkpoint(old), Checkpoint(target.checkpoint)
        self.settings = self.old.settings()
        self.job = self._job()

    def _job(self) -> JobSpec:
        """Returns the job with the rules of the last batch."""
        return self.service.job(self.old.rules(str(self.old.offset(self.old.last_planned())["rules"])))

    def application(self) -> Application:
        commits = self.settings["topic_prefix"] + self.job.commits
        return Application(self.servers, self.kafka, self.settings["application_id"], commits)

    def check(self) -> None:
        """Step 1."""
        self._check_target()
        check_reachable(self.servers, self.kafka)
        prefix, application_id = self.settings["topic_prefix"], self.settings["application_id"]
        markers = read_markers(self.servers, self.kafka, prefix + self.job.commits)
        startup.check_markers(self.old, markers, application_id, self.settings["partitions"], new_epoch=False)
        admin = admin_client(self.servers, self.kafka)
        writers = min(self.target.partitions, self.target.key_groups)
        startup.check_timed(admin, [prefix + name for name in self.job.timed], writers)
        numbers = (self.target.key_groups, self.target.partitions)
        is_same = numbers == (self.settings["key_groups"], self.settings["partitions"])
        if is_same and not self._has_another_changelog(admin):
            raise CheckpointError(
                f"{self.old.root}: expected other numbers than the {numbers[0]} key groups and {numbers[1]} partitions "
                "that it has.",
                "give another --key-groups or --partitions, or start the job as it is.",
            )

    def _has_another_changelog(self, admin: AdminClient) -> bool:
        """The job must not go on as it is then (`moneystate.job.startup.check_changelog`)."""
        topic = self.settings["topic_prefix"] + self.job.changelog
        there = startup.changelog_settings(admin, topic) if topic in partition_counts(admin) else {}
        return not there or any(self.settings.get(name, value) != value for name, value in there.items())

    def _check_target(self) -> None:
        if not self.new.is_new() or set(self.new.folder.names("")) - {OWN}:
            raise CheckpointError(
                f"{self.new.root}: expected no folder of this name, found one that has files.",
                f"start the job with it if it is complete, or give another {PLACE}.",
            )
        self.new.check_writable()

    def run(
        self, session: SparkSession | None, counting: Callable[[Path, int], AbstractContextManager[None]]
    ) -> Manifest:
        """Steps 2 and 3, once the job has stopped. `counting`: shows how many key groups of a savepoint are written."""
        self.application().check_stopped()
        check_can_go_on(self.old)
        self.job = self._job()
        batch = self.old.last_committed() + 1
        place = child(self.target.checkpoint, f"{OWN}/savepoint-{batch}-{self.target.key_groups}")
        if not is_savepoint(place, PLACE):  # else an earlier attempt has made it
            if is_local(place):
                (Path(self.new.root) / OWN).mkdir(parents=True, exist_ok=True)
            with new_savepoint(place) as path, counting(path, self.target.key_groups):
                export(session, self.service.state, self.old, path, self.target.key_groups)
        Preparation(self._specs(place), _nothing, _nothing, _nothing).begin()
        return manifest_of(place, PLACE)

    def _specs(self, savepoint: str) -> TaskSpecs:
        options = RunOptions(
            bootstrap_servers=self.servers,
            checkpoint=self.target.checkpoint,
            topic_prefix=self.settings["topic_prefix"],
            application_id=self.settings["application_id"],
            initial_state=savepoint,
            key_groups=self.target.key_groups,
            partitions=self.target.partitions,
            kafka_config=self.kafka,
            local=bool(self.settings.get("local")),
        )
        return TaskSpecs(self.job, options, self.new)


def _nothing(_: object) -> None:
    pass
