"""What `moneystate doctor` finds about a job: the checks of a start, and what would only be noticed later."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from moneystate.devbroker.java import find_java, java_version
from moneystate.engine import plan as plans
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.deployment import changes
from moneystate.job.local_path import existing_part
from moneystate.job.run_folder import local_dirs
from moneystate.job.run_options import RunOptions
from moneystate.job.start_checks import Check, StartChecks
from moneystate.job.storage.local import LocalFolder
from moneystate.job.task_specs import TaskSpecs
from moneystate.kafka import findings
from moneystate.kafka.findings import Finding, Level, Topics
from moneystate.kafka.topics import TopicSpec, check_creation, topic_settings
from moneystate.kafka.transactions import Application
from moneystate.ports.service import JobSpec

MIB: Final = 1024 * 1024
LEAST_BYTES: Final = 256 * MIB  # with less, a batch may fail at once
ROOM_BYTES: Final = 1024 * MIB
COPIES: Final = 3  # of the state in Spark's local folders: two workers' caches and the segments (docs/operations.md)
LIMITS: Final = ("bound_ms", "max_future_ms")  # rules about time that say nothing of how long state is kept
OF_PROGRAM: Final = ("schema", "state", "program")  # parts of a deployment


def diagnose(spec: JobSpec, options: RunOptions, data: str = "") -> list[Finding]:
    """All findings. `data`: a folder of a replica on this machine; empty: there is none. Changes nothing but what
    `moneystate.kafka.findings` names."""
    diagnosis = Diagnosis(spec, options)
    try:
        return [*diagnosis.of_machine(data), *diagnosis.of_checkpoint(), *diagnosis.of_kafka()]
    finally:
        diagnosis.checks.close()


class Diagnosis:
    def __init__(self, spec: JobSpec, options: RunOptions) -> None:
        self.spec = spec
        self.options = options.named(spec)
        self.checkpoint = Checkpoint(options.checkpoint)
        self.specs = TaskSpecs(spec, self.options, self.checkpoint)
        self.warnings: list[str] = []
        self.checks = StartChecks(self.specs, self.warnings.append)

    def of_machine(self, data: str) -> Iterator[Finding]:
        yield findings.ok(
            "program",
            f"moneystate {version('moneystate')}, Spark {version('pyspark')}, Python {platform.python_version()}, "
            f"plans of version {plans.VERSION}, state of version {plans.STATE_VERSION}.",
        )
        yield from findings.tried("java", _java)
        size = 0
        if isinstance(self.checkpoint.folder, LocalFolder):
            size = _size(self.checkpoint.folder.path)
            yield room_finding("disk of the checkpoint", self.checkpoint.folder.path, size)
        for folder in local_dirs(self.options.spark_config):
            yield room_finding("disk of Spark's local folder", folder, COPIES * size)
        if data:
            yield room_finding("disk of the replica", Path(data), _size(Path(data)))

    def of_checkpoint(self) -> Iterator[Finding]:
        report = list(self._tried(self.checks.of_machine()))
        yield from report
        if not self.checkpoint.is_new() and all(finding.level is not Level.error for finding in report):
            yield from findings.tried("checkpoint", self._changes)

    def of_kafka(self) -> Iterator[Finding]:
        reached = list(self._tried(self.checks.of_broker()))
        yield from reached
        if any(finding.about == "broker" and finding.level is Level.error for finding in reached):
            return
        yield from self._tried(self.checks.of_job())
        yield from (findings.warning("markers", text, "") for text in self.warnings)
        if self.checks.missing and self.options.create_topics:
            yield from findings.tried("new topics", self._creation)
        yield from findings.tried("topics", self._of_topics)
        yield from findings.tried("brokers", lambda: findings.broker_findings(self.checks.admin))
        yield from findings.tried("transactions", lambda: findings.transaction_findings(self.specs.sink_config(0, [])))
        if self.checks.commits not in self.checks.missing:
            yield from findings.tried("open transactions", self._open, Level.warning)

    def _creation(self) -> list[Finding]:
        wanted = self.checks.inputs() + self.checks.outputs()
        missing = [t for t in wanted if t.name in self.checks.missing]
        check_creation(self.checks.admin, missing, self.options.replication)
        return [findings.ok("new topics", "this user may create them.")]

    def _of_topics(self) -> list[Finding]:
        """Returns what can be said of the topics that exist. Without permission to read their settings, that is
        less."""
        admin, o, topics = self.checks.admin, self.options, self._topics()
        if not topics.all():
            return []
        settings = {name: its for name, its in topic_settings(admin, topics.all()).items() if its}
        return [
            *findings.replication_findings(admin, topics.all(), settings),
            *findings.cleanup_findings(topics, settings),
            *findings.retention_findings(topics.inputs, settings, _times(self.spec.rules)),
            *findings.table_findings([o.topic_prefix + t.name for t in self.spec.inputs if t.compacted], settings),
            *findings.permission_findings(admin, topics, o.application()),
        ]

    def _tried(self, checks: Iterator[Check]) -> Iterator[Finding]:
        """The checks of a start, each on its own."""
        for about, check in checks:
            yield from findings.tried(about, self._checked(about, check))

    def _checked(self, about: str, check: Callable[[], None]) -> Callable[[], list[Finding]]:
        def report() -> list[Finding]:
            check()
            return self._passed(about)

        return report

    def _passed(self, about: str) -> list[Finding]:
        """Returns what is to be said after a check that found nothing wrong."""
        if about == "checkpoint":
            return [findings.ok(about, _age(self.checkpoint))]
        if about == "topics":
            return self._found_topics()
        told = {
            "broker": f"{self.options.bootstrap_servers} answers and lets this user in.",
            "checkpoint folder": "can be written to.",
        }
        if not self.checks.missing:
            told["markers"] = "those of this checkpoint, or none yet."
            told["logs"] = "they have the records that the job reads next."
        return [findings.ok(about, told[about])] if about in told else []

    def _found_topics(self) -> list[Finding]:
        missing = self.checks.missing
        inputs = sorted(missing.intersection(t.name for t in self.checks.inputs()))
        others = len(missing) - len(inputs)
        created = f"; the start creates {others} more" if others else ""
        report = [findings.ok("topics", f"those that exist fit the job{created}.")]
        if inputs:
            do = "check --topic-prefix, or create them with the partitions that they need."
            names = ", ".join(inputs)
            report = [
                findings.warning("topics", f"expected the input topics {names}, the start would create them.", do)
            ]
        return report

    def _changes(self) -> list[Finding]:
        """Returns what the program does differently from the one that ran last. The start's checks find what is
        refused."""
        return [
            findings.warning(
                f"{change.part} {change.name}",
                f"expected as in the checkpoint, found another: {change.effect}.",
                "see moneystate plan; to keep it as it was, start the program that ran last.",
            )
            for change in changes(self.spec, self.checks.settings, self.checkpoint)
            if change.part in OF_PROGRAM and not change.refused
        ]

    def _open(self) -> list[Finding]:
        o = self.options
        return findings.open_findings(
            Application(o.bootstrap_servers, o.kafka_config, o.application(), self.checks.commits)
        )

    def _topics(self) -> Topics:
        def there(topics: list[TopicSpec]) -> list[str]:
            return [t.name for t in topics if t.name not in self.checks.missing]

        outputs = self.checks.outputs()
        state = (self.checks.changelog, self.checks.commits)
        return Topics(
            there(self.checks.inputs()),
            there([t for t in outputs if t.name not in state]),
            there([t for t in outputs if t.name in state]),
            frozenset(t.name for t in outputs if t.compacted),
            frozenset(t.name for t in outputs if t.compacted and t.retention_ms),
        )


def _java() -> list[Finding]:
    java = find_java()
    return [findings.ok("java", f"{java}, version {java_version(java)}.")]


def room_finding(about: str, folder: Path, needed: int) -> Finding:
    """`needed`: bytes that the job may use beyond what it has there."""
    return judged_room(about, folder, shutil.disk_usage(existing_part(folder)).free, needed)


def judged_room(about: str, folder: Path, free: int, needed: int) -> Finding:
    needed = max(needed, ROOM_BYTES)
    if free >= needed:
        return findings.ok(about, f"{folder}: {free // MIB:,} MiB are free.")
    level = Level.error if free < LEAST_BYTES else Level.warning
    text = f"{folder}: expected {needed // MIB:,} MiB free, found {free // MIB:,} MiB."
    return Finding(about, level, text, "make room, or choose a folder on another disk (docs/operations.md).")


def _size(folder: Path) -> int:
    """Bytes of the files. Those that a running job removes meanwhile do not count."""
    total = 0
    for inner, _, names in os.walk(folder):  # which skips a folder that is gone
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(inner, name)).st_size
    return total


def _age(checkpoint: Checkpoint) -> str:
    if checkpoint.is_new():
        return f"{checkpoint.root}: none yet, the start begins one."
    last = checkpoint.offset(checkpoint.last_planned())
    return (
        f"{checkpoint.root}: format {checkpoint.settings()['format']}, plan of version {last['version']}, state of "
        f"version {last['stateVersion']}, batch {checkpoint.last_planned()} is planned, "
        f"{checkpoint.last_committed()} is finished."
    )


def _times(rules: Mapping[str, Any]) -> dict[str, int]:
    """The rules of a service that are times, such as TTLs and waits."""
    return {
        name: value
        for name, value in rules.items()
        if name.endswith("_ms") and name not in LIMITS and isinstance(value, int)
    }
