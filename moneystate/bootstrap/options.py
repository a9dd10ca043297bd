"""The options of a bootstrap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moneystate.engine.plan import Reached, TopicPartition
from moneystate.errors import ConfigError
from moneystate.job.local_path import is_local, local_folder

KAFKA = "kafka"


@dataclass(frozen=True)
class BootstrapOptions:
    """The options of a bootstrap."""

    sources: list[str]  # KAFKA, archives (paths or URIs), or both: then Kafka continues where the archives end
    out: Path  # the savepoint to create
    work: Path | None = None  # the work folder; None: beside `out`
    as_of: str = "end"
    # Offsets to start from in Kafka, by topic without prefix; None: the beginning of the logs.
    starts: Mapping[TopicPartition, int] | None = None
    ends: Mapping[TopicPartition, int] | None = None  # offsets to stop at in Kafka; None: as `as_of` says
    initial_highs: Path | None = None
    reached: Sequence[Reached] = ()  # watermarks that a run recorded, in the order in which it reached them
    with_output: bool = False
    bootstrap_servers: str = ""
    topic_prefix: str = ""  # must be the live job's even if only archives are read: dead letters contain it
    key_groups: int = 64
    partitions: int = 4  # of the operator that will start from the savepoint
    max_records_per_chunk: int = 200_000
    source_tasks: int = 0  # 0: one for each core
    formats: dict[str, str] = field(default_factory=dict)
    registry_url: str | None = None
    local: bool = False  # run in this process, without Spark
    master: str | None = None
    kafka_config: dict[str, str] = field(default_factory=dict)
    spark_config: dict[str, str] = field(default_factory=dict)

    @property
    def work_folder(self) -> Path:
        return (self.work or self.out.with_name(f".{self.out.name}.work")).absolute()

    @property
    def archives(self) -> list[Path]:
        """The archives' folders on this machine, which for those in a store are copies."""
        return [
            local_folder(source, "--from") if is_local(source) else self.work_folder / "archives" / str(number)
            for number, source in enumerate(self.sources)
            if source != KAFKA
        ]

    @property
    def copies(self) -> dict[Path, str]:
        """The addresses of the archives in stores, by the folders of their copies."""
        folders = [source for source in self.sources if source != KAFKA]
        return {copy: source for copy, source in zip(self.archives, folders, strict=True) if not is_local(source)}

    @property
    def from_kafka(self) -> bool:
        return KAFKA in self.sources

    def check(self) -> None:
        """Raises ConfigError for options that contradict each other."""
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
                raise ConfigError(f"{flag} {value}: expected at least 1.", "give a larger number.")
        if self.partitions > self.key_groups:
            raise ConfigError(
                f"--partitions {self.partitions}: expected no more than the {self.key_groups} key groups.",
                "raise --key-groups, or give fewer partitions.",
            )
