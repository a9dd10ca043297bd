"""`moneystate heartbeat`: writes heartbeats into quiet partitions, until SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from enum import StrEnum
from typing import Annotated

import typer
from confluent_kafka import Producer

from moneystate.api.codec import Codec
from moneystate.api.platform_records import HEARTBEAT_RECORD, Heartbeat
from moneystate.cli.durations import parse_ms
from moneystate.cli.option import DURATION, Panel, choice, option
from moneystate.cli.options import BootstrapServers, KafkaConfig, KafkaConfigFile, Quiet, TopicPrefix, kafka_settings
from moneystate.errors import BrokerError, ConfigError
from moneystate.kafka.client import admin_client, base_config, check_reachable, new_client
from moneystate.kafka.heartbeats import Heartbeats

LOOKS = 4  # in the time after which a partition is quiet


class HeartbeatFormat(StrEnum):
    avro = "avro"
    json = "json"


def heartbeat(
    bootstrap_servers: BootstrapServers,
    topics: Annotated[
        str, option("topics", "Topics, without their prefix, with commas between them.", Panel.topics, "TOPIC,...")
    ],
    topic_prefix: TopicPrefix = "",
    after: Annotated[
        str,
        option("after", "A partition without a record for so long gets a heartbeat.", Panel.run, DURATION),
    ] = "5s",
    allowance: Annotated[
        str,
        option(
            "allowance",
            "A heartbeat's time is so far behind the wall clock: how late producers may write.",
            Panel.run,
            DURATION,
        ),
    ] = "5s",
    format: Annotated[
        HeartbeatFormat, choice("heartbeat-format", "Format of the topics.", Panel.topics, HeartbeatFormat)
    ] = HeartbeatFormat.avro,
    kafka_config: KafkaConfig = None,
    kafka_config_file: KafkaConfigFile = None,
    quiet: Quiet = False,
) -> None:
    """Write heartbeats into quiet partitions.

    Such partitions then hold no watermark back, and time advances by the logs alone: a replay has the same results.
    Records later than the allowance and the job's bound together are late. With --quiet, the command does not say that
    a broker is away. It ends with code 0 after SIGTERM.
    """
    names = [topic_prefix + name.strip() for name in topics.split(",") if name.strip()]
    if not names:
        raise ConfigError("--topics: expected a topic, found none.", "name topics with commas between them.")
    after_s = parse_ms(after, "--after", 100) / 1000
    allowance_ms = parse_ms(allowance, "--allowance")
    codec = Codec(HEARTBEAT_RECORD)
    write = codec.to_json if format is HeartbeatFormat.json else codec.encode
    kafka = kafka_settings(kafka_config_file, kafka_config)
    check_reachable(bootstrap_servers, kafka)
    producer = new_client(Producer, {**base_config(bootstrap_servers, kafka), "acks": "all", "linger.ms": 0})
    beats = Heartbeats(
        admin_client(bootstrap_servers, kafka), producer, names, after_s, lambda time_ms: write(Heartbeat(time_ms))
    )
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    away = False
    while not over.is_set():
        try:
            beats.turn(time.monotonic(), time.time_ns() // 1_000_000 - allowance_ms)
            away = False
        except BrokerError as e:
            if not away and not quiet:
                typer.echo(f"warning: {e}", err=True)
            away = True
        over.wait(after_s / LOOKS)
