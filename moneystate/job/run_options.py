"""The options of one run of a job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from moneystate.kafka.topics import AS_THE_BROKER, Replication
from moneystate.ports.service import JobSpec


@dataclass(frozen=True)
class RunOptions:
    """Describes how a job runs. Apart from `formats`, nothing here affects results. Names that end in `_s` are in
    seconds."""

    bootstrap_servers: str
    checkpoint: str
    topic_prefix: str = ""
    application_id: str = ""
    bounded: bool = False
    drain: bool = False
    drain_until_ms: int | None = None  # the last time that a drain runs; None: all that is left
    replies_s: float = 600.0
    idle_timeout_s: float = 30.0
    broker_skew_ms: int | None = None  # as in `BrokerClock`
    starting_offsets: str = "earliest"
    new_epoch: bool = False
    initial_state: str = ""
    initial_offsets: str = ""
    finish_batch: bool = False
    key_groups: int = 64
    partitions: int = 4
    max_records: int = 200_000
    trigger_interval_s: float = 0.0
    formats: dict[str, str] = field(default_factory=dict)  # what the topics hold
    registry_url: str | None = None
    master: str | None = None
    create_topics: bool = True
    topic_partitions: int = 4
    replication: Replication = AS_THE_BROKER
    kafka_config: dict[str, str] = field(default_factory=dict)
    spark_config: dict[str, str] = field(default_factory=dict)
    source_tasks: int = 2
    local: bool = False  # in one process, without Spark
    rewrite: tuple[int, int] | None = None  # (number of batches, state version): read nothing, rewrite the state

    def named(self, spec: JobSpec) -> RunOptions:
        """Sets the application id of the job, unless the user gives one."""
        return replace(self, application_id=self.application_id or spec.application_id(self.topic_prefix))

    def application(self) -> str:
        """Known to a `Job`."""
        return self.application_id
