"""`moneystate ingest`: takes records over HTTP and writes them to Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from moneystate import log
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, FormatFlags, MetricsFlags, NewTopicFlags, SecurityFlags
from moneystate.cli.option import DURATION, NUMBER, Flags, Panel, filled, flag
from moneystate.cli.options import MAX_RECORD_BYTES, CreateTopics, Grace, Listen, MaxRecordBytes, audit_target
from moneystate.cli.service_jobs import Services, services_of
from moneystate.errors import ConfigError
from moneystate.ingest import process
from moneystate.ingest.app import Limits
from moneystate.ingest.options import IngestOptions, Security, TopicOptions
from moneystate.runtime.job import check_formats, service_spec
from moneystate.runtime.reference import service_at

MIB = 1 << 20


@dataclass(frozen=True)
class IngestFlags(Flags):
    cluster: ClusterFlags
    security_flags: SecurityFlags
    metrics_flags: MetricsFlags
    format_flags: FormatFlags
    new_topics: NewTopicFlags
    listen: Listen = "127.0.0.1:8090"
    confirm_timeout: str = flag(
        "5s", "How long Kafka may take to confirm a record; after that the answer is 503.", Panel.server, DURATION
    )
    grace: Grace = "10s"
    pages: bool = flag(True, "Describe the requests at /docs and /openapi.json.", Panel.server, shown="on")
    keep_keys: str = flag("1h", "How long the answer to an Idempotency-Key is kept.", Panel.server, DURATION)
    key_partitions: int = flag(
        4, "Partitions of the topic of idempotency keys, when it is created.", Panel.topics, NUMBER, least=1, most=100
    )
    max_record_bytes: MaxRecordBytes = MAX_RECORD_BYTES
    max_body: int = flag(1, "MiB of a request, also after it is decompressed.", Panel.limits, NUMBER, least=1)
    max_records: int = flag(10_000, "Records of a request.", Panel.limits, NUMBER, least=1)
    max_open: int = flag(
        64, "MiB of the bodies of all open requests. More are answered 503.", Panel.limits, NUMBER, least=1
    )
    max_key_memory: int = flag(
        256, "MiB of memory for idempotency keys. More are answered 503.", Panel.limits, NUMBER, least=1
    )
    max_rate: int = flag(
        0, "Records a second of a caller whose token has no ingest_rate; 0: any number.", Panel.limits, NUMBER, least=0
    )
    audit_log: Annotated[str, audit_target(shown="none")] = ""
    create_topics: CreateTopics = True


def ingest(context: typer.Context, words: Services, flags: IngestFlags) -> None:
    """Take records over HTTP and write them to Kafka.

    The records are those that services declare for their inputs. A record is answered with 202 once all in-sync
    replicas have it. The command ends with code 0 after SIGTERM, once open requests have been answered. See
    docs/ingest.md.
    """
    references = services_of(context, words)
    log.add_fields(service=", ".join([service_at(reference).name for reference in references]))
    topics = filled(
        TopicOptions,
        flags,
        prefix=flags.cluster.topic_prefix,
        formats=_formats(references, flags.format_flags),
        registry_url=flags.format_flags.schema_registry,
        create=flags.create_topics,
        partitions=flags.new_topics.topic_partitions,
        replication=flags.new_topics.replication(),
    )
    process.run(
        filled(
            IngestOptions,
            flags,
            services=references,
            topics=topics,
            limits=Limits(flags.max_body * MIB, flags.max_records, flags.max_open * MIB, float(flags.max_rate)),
            timeout_s=parse_ms(flags.confirm_timeout, "--confirm-timeout", 100) / 1000,
            keep_ms=parse_ms(flags.keep_keys, "--keep-keys", 1),
            key_memory_bytes=flags.max_key_memory * MIB,
            grace_s=parse_ms(flags.grace, "--grace") / 1000,
            kafka_config=flags.cluster.settings(),
            security=filled(Security, flags, client_ca=flags.security_flags.tls_ca),
        )
    )


def _formats(references: list[str], flags: FormatFlags) -> dict[str, str]:
    """The formats of all topics. Raises ConfigError."""
    specs = [service_spec(reference) for reference in references]
    known = [topic for spec in specs for topic in spec.formatted]
    declared = {topic: name for spec in specs for topic, name in spec.formats.items()}
    decoded = [topic for spec in specs for topic in spec.decoded]
    chosen = flags.by_topic(known, declared, decoded)
    for reference, spec in zip(references, specs, strict=True):
        check_formats(reference, {topic: name for topic, name in chosen.items() if topic in spec.formatted})
    missing = [topic for topic, name in chosen.items() if name == "confluent" and not flags.schema_registry]
    if missing:
        raise ConfigError(f"{missing[0]}: expected a schema registry.", "add --schema-registry URL.")
    return chosen
