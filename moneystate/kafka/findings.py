"""Findings about brokers and topics, for `moneystate doctor`: settings that a job would suffer from later.

What a start refuses is checked by the start's own checks (`moneystate.kafka.topics`). Nothing is written to a topic.
The only trace is a transactional id that is initialised, `APPLICATION-ID-doctor-0`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource  # type: ignore[attr-defined]

from moneystate.errors import BrokerError, MoneystateError
from moneystate.kafka.client import METADATA_TIMEOUT_S, NOT_ALLOWED, reason
from moneystate.kafka.sink import PartitionSink, SinkConfig, transactional_id
from moneystate.kafka.transaction_log import transactions
from moneystate.kafka.transactions import Application

Settings = Mapping[str, Mapping[str, str]]  # of topics, or of brokers, by name

GRANT: Final = "grant this user the permission: docs/security.md lists those of each command."
STALE_S: Final = 30.0  # a transaction that is open for longer is of a very long batch, or of a run that is gone
CLOCKS_APART_MS: Final = 5_000
HANGING: Final = "transaction.partition.verification.enable"
UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))
READ, WRITE, DESCRIBE_CONFIGS = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS


class Level(StrEnum):
    ok = "ok"
    warning = "warning"
    error = "error"


BOTH: Final = {"compact", "delete"}  # cleanup policies


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    about: str
    level: Level
    text: str
    do: str = ""


@dataclass(frozen=True)
class Topics:
    """A job's topics that exist, with prefix."""

    inputs: list[str]
    outputs: list[str]
    state: list[str]  # changelog and commits topic
    compacted: frozenset[str]  # outputs that the service declares as compacted
    limited: frozenset[str] = frozenset()  # those of them whose records are kept for some time only

    def all(self) -> list[str]:
        return [*self.inputs, *self.outputs, *self.state]


def ok(about: str, text: str) -> Finding:
    return Finding(about, Level.ok, text)


def warning(about: str, text: str, do: str) -> Finding:
    return Finding(about, Level.warning, text, do)


def error(about: str, text: str, do: str) -> Finding:
    return Finding(about, Level.error, text, do)


def tried(about: str, find: Callable[[], list[Finding]], level: Level = Level.error) -> list[Finding]:
    """The findings, or the error that kept them from being found."""
    try:
        return find()
    except MoneystateError as e:
        return [Finding(about, level, e.message, e.do)]


def _or_ok(about: str, problems: list[Finding], text: str) -> list[Finding]:
    return problems or [ok(about, text)]


# Brokers


def broker_findings(admin: AdminClient) -> list[Finding]:
    nodes = _cluster(admin).nodes
    about, text = "brokers", f"{len(nodes)} {'broker' if len(nodes) == 1 else 'brokers'}"
    settings = _broker_settings(admin, [str(node.id) for node in nodes])
    if not all(settings.values()):
        do = "grant DescribeConfigs on the cluster, or check that the brokers are Kafka 4.0 or later."
        return [warning(about, f"{text}, this user may not read their settings.", do)]
    old = [
        warning(
            f"broker {node}",
            f"expected {HANGING}=true, found {its.get(HANGING, 'none')}: a transaction can hang for good.",
            "switch it on, or update the broker to Kafka 4.0 or later.",
        )
        for node, its in settings.items()
        if its.get(HANGING) != "true"
    ]
    versions = {its.get("inter.broker.protocol.version", "4.0 or later") for its in settings.values()}
    return _or_ok(about, old, f"{text}, Kafka {', '.join(sorted(versions))}.")


def _cluster(admin: AdminClient) -> Any:
    try:
        return admin.describe_cluster(request_timeout=METADATA_TIMEOUT_S).result()
    except KafkaException as e:
        raise BrokerError(f"expected a description of the cluster, but {reason(e)}.", "check the brokers.") from None


def _broker_settings(admin: AdminClient, nodes: list[str]) -> dict[str, dict[str, str]]:
    """Empty for a broker whose settings this user may not read."""
    settings: dict[str, dict[str, str]] = {}
    for node in nodes:
        resource = ConfigResource(ConfigResource.Type.BROKER, node)
        future = admin.describe_configs([resource], request_timeout=METADATA_TIMEOUT_S)[resource]
        try:
            settings[node] = {name: entry.value for name, entry in future.result().items()}
        except KafkaException as e:
            if e.args[0].code() not in NOT_ALLOWED:
                raise BrokerError(
                    f"broker {node}: expected its settings, but {reason(e)}.", "check the broker."
                ) from None
            settings[node] = {}
    return settings


# Topics


def replication_findings(admin: AdminClient, names: Sequence[str], settings: Settings) -> list[Finding]:
    brokers = len(_cluster(admin).nodes)
    problems = []
    for name, topic in _described(admin, names).items():
        replicas = min(len(p.replicas) for p in topic.partitions)
        in_sync = min(len(p.isr) for p in topic.partitions)
        least = int(settings.get(name, {}).get("min.insync.replicas", 1))
        problems += _replication(name, replicas, in_sync, least, brokers)
    text = "one broker, so there is one replica." if brokers == 1 else "enough replicas are in sync."
    return _or_ok("replication", problems, text)


def _replication(name: str, replicas: int, in_sync: int, least: int, brokers: int) -> list[Finding]:
    """The first problem of a topic."""
    about = f"topic {name}"
    if in_sync < least:
        text = f"expected {least} replicas in sync (min.insync.replicas), found {in_sync}: nothing can be written."
        return [error(about, text, "bring the other brokers back, add replicas, or lower min.insync.replicas.")]
    if in_sync < replicas:
        text = f"expected all {replicas} replicas in sync, found {in_sync}."
        return [warning(about, text, "see which broker is away or slow.")]
    if brokers == 1:
        return []
    if replicas == 1:
        text = f"expected several replicas on {brokers} brokers, found one: a lost broker loses records."
        return [warning(about, text, "add replicas with kafka-reassign-partitions.sh.")]
    if least == 1:
        text = "expected min.insync.replicas of 2 or more, found 1: a lost broker can lose records it has confirmed."
        do = f"set min.insync.replicas={replicas - 1}." if replicas > 2 else "add a replica, then set it to 2."
        return [warning(about, text, do)]
    if least == replicas:
        text = f"expected min.insync.replicas below the {replicas} replicas, found {least}: no broker may be away."
        return [warning(about, text, "add a replica, or lower min.insync.replicas.")]
    return []


def cleanup_findings(topics: Topics, settings: Settings) -> list[Finding]:
    """For inputs, the start checks this."""
    problems = []
    for name in [*topics.state, *topics.outputs]:
        policy = settings.get(name, {}).get("cleanup.policy")
        wanted = "compact" if name in (*topics.state, *topics.compacted) else "delete"
        if policy in (None, wanted) or (name in topics.limited and set(policy.split(",")) == BOTH):
            continue
        make = error if name in topics.state else warning
        lost = "old records of each key" if wanted == "delete" else "entries that are still needed"
        text = f"expected cleanup.policy={wanted}, found {policy}: {lost} would be removed."
        problems.append(make(f"topic {name}", text, f"set cleanup.policy={wanted}."))
    if not settings:
        return []
    return _or_ok("cleanup", problems, "changelog and commits topic are compacted, outputs as declared.")


def retention_findings(inputs: Iterable[str], settings: Settings, rules: Mapping[str, int]) -> list[Finding]:
    """`rules`: the service's times in ms, such as TTLs."""
    rule, longest = max(rules.items(), key=lambda item: item[1], default=("", 0))
    problems = []
    known = [name for name in inputs if name in settings]
    for name in known:
        retention_ms, size = (int(settings[name].get(key, -1)) for key in ("retention.ms", "retention.bytes"))
        again = "state that is computed again from the topic would lack records."
        if 0 <= retention_ms < longest:
            text = (
                f"expected retention.ms of at least {rule}={duration(longest)}, found {duration(retention_ms)}: {again}"
            )
            problems.append(
                warning(f"topic {name}", text, f"set retention.ms={longest} or more, or archive the topic.")
            )
        if size >= 0:
            text = f"expected no retention.bytes, found {size}: records can be removed before their time, and {again}"
            problems.append(warning(f"topic {name}", text, "set retention.bytes=-1, and plan the disk by time."))
    if not known:
        return []
    text = f"inputs are kept for at least {rule}={duration(longest)}." if rule else "the service declares no times."
    return _or_ok("retention", problems, text)


def table_findings(names: Iterable[str], settings: Settings) -> list[Finding]:
    """`names`: of the topics of tables that accept the loss of records. For others, the start checks this."""
    problems = []
    for name in names:
        its = settings.get(name, {})
        loses = [its.get(limit, "-1") != "-1" for limit in ("retention.ms", "retention.bytes")]
        if "compact" in its.get("cleanup.policy", "") or any(loses):
            text = "the table's topic loses records: a replay and a new worker find no earlier versions of its rows."
            do = "set cleanup.policy=delete, retention.ms=-1 and retention.bytes=-1 to keep them."
            problems.append(warning(f"topic {name}", text, do))
    return problems


def duration(ms: int) -> str:
    unit, name = next((unit, name) for unit, name in UNITS if (ms % unit == 0 and ms >= unit) or unit == 1)
    return f"{ms // unit}{name}"


def _described(admin: AdminClient, names: Sequence[str]) -> dict[str, Any]:
    """Descriptions with what this user may do. Topics that it may not see are left out."""
    if not names:
        return {}
    futures = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=METADATA_TIMEOUT_S
    )
    described = {}
    for name, future in futures.items():
        try:
            described[name] = future.result()
        except KafkaException as e:
            raise BrokerError(f"{name}: expected its description, but {reason(e)}.", "check the broker.") from None
    return described


# Permissions


def permission_findings(admin: AdminClient, topics: Topics, group: str) -> list[Finding]:
    """Returns what the brokers say that this user may do."""
    needed = {
        **dict.fromkeys(topics.inputs, (READ, DESCRIBE_CONFIGS)),
        **dict.fromkeys(topics.outputs, (WRITE, DESCRIBE_CONFIGS)),
        **dict.fromkeys(topics.state, (READ, WRITE, DESCRIBE_CONFIGS)),
    }
    problems = []
    for name, topic in _described(admin, topics.all()).items():
        problems += _lacking(f"topic {name}", topic.authorized_operations, needed[name])
    problems += _lacking(f"group {group}", _group_operations(admin, group), (READ,))
    return _or_ok("permissions", problems, "this user may read and write what the job needs.")


def _lacking(about: str, allowed: Sequence[Any] | None, needed: Iterable[Any]) -> list[Finding]:
    """`allowed` None: the brokers do not say. Without Read or Write on a topic a job fails, without others it does
    less."""
    lacking = [operation for operation in needed if allowed is not None and operation not in allowed]
    return [
        Finding(
            about,
            Level.error if operation in (READ, WRITE) and about.startswith("topic ") else Level.warning,
            f"expected the permission {operation.name.title().replace('_', '')}, it is missing.",
            GRANT,
        )
        for operation in lacking
    ]


def _group_operations(admin: AdminClient, group: str) -> Sequence[Any] | None:
    asked = admin.describe_consumer_groups(
        [group], include_authorized_operations=True, request_timeout=METADATA_TIMEOUT_S
    )
    try:
        allowed: Sequence[Any] | None = asked[group].result().authorized_operations
    except KafkaException as e:
        return [] if e.args[0].code() in NOT_ALLOWED else None
    return allowed


# Transactions


def transaction_findings(config: SinkConfig) -> list[Finding]:
    """Initialises a producer as the job does, under an id that is no job's. The broker's record of it has its time."""
    trial = replace(config, application_id=f"{config.application_id}-doctor")
    sink = PartitionSink(trial, 0)
    before = _now_ms()
    sink.fence()
    after, limit = _now_ms(), duration(sink.transaction_ms)
    sink.abort()
    allowed = ok("transactions", f"this user may begin them, and the brokers accept transaction.timeout.ms={limit}.")
    mine = transactional_id(trial.application_id, 0)

    def clock() -> list[Finding]:
        seen = transactions(config.bootstrap_servers, config.extra, [mine])
        return clock_findings(before, seen[mine].changed_ms, after)

    return [allowed, *tried("clock", clock, Level.warning)]


def clock_findings(before_ms: int, broker_ms: int, after_ms: int) -> list[Finding]:
    """`broker_ms`: the broker's time of something that was done between two times of this machine."""
    apart = min(broker_ms - before_ms, 0) or max(broker_ms - after_ms, 0)
    if abs(apart) <= CLOCKS_APART_MS:
        return [ok("clock", f"at most {abs(apart) + after_ms - before_ms} ms from the broker's.")]
    text = f"expected the broker's time within {duration(CLOCKS_APART_MS)}, it is {abs(apart)} ms "
    text += f"{'ahead' if apart > 0 else 'behind'}: retention, records far ahead and idleness go by wrong times."
    return [warning("clock", text, "synchronise the clocks (NTP).")]


def open_findings(application: Application) -> list[Finding]:
    """Open transactions that nobody seems to finish."""
    now = _now_ms()
    stale = [
        warning(
            f"transaction {one.transactional_id}",
            f"expected it to end within seconds, it is open for {(now - one.since_ms) // 1000} s.",
            "if no run works on it: moneystate transactions abort.",
        )
        for one in application.transactions()
        if one.since_ms is not None and now - one.since_ms > STALE_S * 1000
    ]
    return _or_ok("open transactions", stale, "none that is open for long.")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
