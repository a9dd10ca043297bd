"""What a bootstrap is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from moneystate.engine.plan import TopicPartition
from moneystate.errors import ConfigError
from moneystate.spark.local_path import local_folder

KAFKA = "kafka"


@dataclass(frozen=True)
class BootstrapOptions:
    """`sources`: KAFKA, folders of archives, or both: then Kafka goes on where the archives end.

    `out`: the savepoint to make; `work`: where it is made, None: beside it. `starts`, `ends`: by topic without prefix,
    where to begin and end in Kafka, in place of its logs' beginnings and of `as_of`. `topic_prefix`: it names dead
    letters, so it has to be the live job's, also where only archives are read. `partitions`: of the operator that will
    start from the savepoint. `source_tasks` 0: one for each core.
    """

    sources: list[str]
    out: Path
    work: Path | None = None
    as_of: str = "end"
    starts: Mapping[TopicPartition, int] | None = None
    ends: Mapping[TopicPartition, int] | None = None
    initial_highs: Path | None = None
    with_output: bool = False
    bootstrap_servers: str = ""
    topic_prefix: str = ""
    key_groups: int = 64
    partitions: int = 4
    max_records_per_chunk: int = 200_000
    source_tasks: int = 0
    formats: dict[str, str] = field(default_factory=dict)
    registry_url: str | None = None
    master: str | None = None
    kafka_config: dict[str, str] = field(default_factory=dict)
    spark_config: dict[str, str] = field(default_factory=dict)

    @property
    def work_folder(self) -> Path:
        return (self.work or self.out.with_name(f".{self.out.name}.work")).absolute()

    @property
    def archives(self) -> list[Path]:
        return [local_folder(source, "--from") for source in self.sources if source != KAFKA]

    @property
    def from_kafka(self) -> bool:
        return KAFKA in self.sources

    def check(self) -> None:
        """Raises ConfigError for what does not fit together."""
        if not self.sources:
            raise ConfigError("--from: expected kafka or the folder of an archive.", "give one.")
        if self.from_kafka and not self.bootstrap_servers.strip():
            raise ConfigError("--from kafka: expected --bootstrap-servers.", "give HOST:PORT of the brokers.")
        for flag, value in (
            ("--key-groups", self.key_groups),
            ("--partitions", self.partitions),
            ("--max-records-per-chunk", self.max_records_per_chunk),
        ):
            if value < 1:
                raise ConfigError(f"{flag} {value}: expected at least 1.")
        if self.partitions > self.key_groups:
            raise ConfigError(
                f"--partitions {self.partitions}: expected no more than the {self.key_groups} key groups."
            )
