"""What the commands' flags have in common."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from moneystate.errors import ConfigError
from moneystate.kafka import settings
from moneystate.kafka.topics import Replication

T = TypeVar("T")

FORMATS = ("avro", "json", "confluent")
DEDUP_TTL = "1h"
MAX_RECORD_BYTES = 128 * 1024
MIN_RECORD_BYTES = 1024


class SessionLookup(StrEnum):
    none = "none"
    topic = "topic"


def flag(env: str, help: str) -> typer.models.OptionInfo:
    """A flag that may also be given as the variable MONEYSTATE_<env>."""
    option: typer.models.OptionInfo = typer.Option(help=help, envvar=f"MONEYSTATE_{env}")
    return option


def repeated(env: str, help: str) -> typer.models.OptionInfo:
    """A flag that may be given several times. Its variable has the values between semicolons or on lines of their own:
    blanks are parts of values."""
    option: typer.models.OptionInfo = typer.Option(
        help=f"{help} May be repeated.", envvar=f"MONEYSTATE_{env}", callback=_split
    )
    return option


def _split(context: typer.Context, parameter: typer.CallbackParam, values: list[str] | None) -> list[str] | None:
    source = context.get_parameter_source(str(parameter.name))
    if source is None or source.name != "ENVIRONMENT":
        return values
    text = os.environ[str(parameter.envvar)]
    return [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]


Bound = Annotated[str, flag("BOUND", "Out-of-orderness bound of all inputs.")]
BOUND = "20s"
MaxFuture = Annotated[str, flag("MAX_FUTURE", "A record further ahead of its Kafka timestamp is a dead letter.")]
MAX_FUTURE = "10m"
MaxRecordBytes = Annotated[
    int,
    typer.Option(
        min=MIN_RECORD_BYTES,
        help="An event with a larger value is a dead letter: it could not be written again in every form.",
        envvar="MONEYSTATE_MAX_RECORD_BYTES",
    ),
]
KafkaConfig = Annotated[
    list[str] | None,
    repeated("KAFKA_CONFIG", "NAME=VALUE for all Kafka clients (librdkafka); secrets as ${env:NAME} or ${file:PATH}."),
]
KafkaConfigFile = Annotated[
    Path | None, flag("KAFKA_CONFIG_FILE", "Properties file of such settings; --kafka-config overrides it.")
]
ReplicationFactor = Annotated[
    int, flag("REPLICATION_FACTOR", "Replicas of topics that are created; 0: the broker's default.")
]
MinInsyncReplicas = Annotated[
    int, flag("MIN_INSYNC_REPLICAS", "min.insync.replicas of topics that are created; 0: the broker's default.")
]
SparkConfig = Annotated[list[str] | None, repeated("SPARK_CONFIG", "NAME=VALUE for Spark.")]
Format = Annotated[list[str] | None, repeated("FORMAT", "TOPIC=avro|json|confluent, by topic without prefix.")]


PlainService = Annotated[
    str,
    typer.Option(
        "--service",
        metavar="SERVICE",
        help="A plain service: its short name, or MODULE:NAME with a module or its file.",
        envvar="MONEYSTATE_SERVICE",
        show_default="the enrichment",
    ),
]


def kafka_settings(file: Path | None, texts: list[str] | None) -> dict[str, str]:
    """For all Kafka clients. Raises ConfigError."""
    return settings.kafka_settings(file, pairs(texts or [], settings.FLAG))


def replication(factor: int, min_insync: int) -> Replication:
    """Raises ConfigError."""
    for flag, value in (("--replication-factor", factor), ("--min-insync-replicas", min_insync)):
        if value < 0:
            raise ConfigError(f"{flag} {value}: expected 0 or more.")
    if factor and min_insync > factor:
        raise ConfigError(
            f"--min-insync-replicas {min_insync}: expected no more than the {factor} replicas of --replication-factor."
        )
    return Replication(factor, min_insync)


def check_given(**values: str) -> None:
    """Raises ConfigError for a flag that was given an empty value."""
    for name, value in values.items():
        if not value.strip():
            raise ConfigError(f"--{name.replace('_', '-')}: expected a value, found nothing.")


def pairs(texts: list[str], flag: str) -> dict[str, str]:
    """NAME=VALUE, several times. Raises ConfigError, which does not repeat what may be a secret."""
    values = {}
    for number, text in enumerate(texts, 1):
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{flag}: expected NAME=VALUE, which number {number} of {len(texts)} is not.")
        values[name.strip()] = value.strip()
    return values


def formats(
    texts: list[str], registry_url: str, known: list[str], declared: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Format by topic without prefix, of the topics `known`; `declared`: of those that no flag names. Raises
    ConfigError."""
    declared = declared or {}
    by_topic = {**declared, **pairs(texts, "--format")}
    for topic, name in by_topic.items():
        if topic not in known:
            raise ConfigError(f"--format {topic}={name}: expected one of the topics {', '.join(known)}.")
        if name not in FORMATS and name != declared.get(topic):
            raise ConfigError(f"--format {topic}={name}: expected one of {', '.join(FORMATS)}.")
        if name == "confluent" and not registry_url:
            raise ConfigError(f"--format {topic}={name}: expected a schema registry.", "add --schema-registry URL.")
    return by_topic


def flagged(command: Callable[..., T], parameter: str, make: Callable[..., Any]) -> Callable[..., T]:
    """The flags of `make` in place of the parameter that takes what it makes."""
    flags = inspect.signature(make, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True)
    other_parameters = [p for name, p in own.parameters.items() if name != parameter]

    @functools.wraps(command)
    def run(**given: Any) -> T:
        made = make(**{name: given.pop(name) for name in flags})
        return command(**{parameter: made}, **given)

    shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in [*other_parameters, *flags.values()]]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run
