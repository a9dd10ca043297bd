"""`moneystate heartbeat`: writes heartbeats into quiet partitions, until SIGTERM."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from confluent_kafka import Producer

from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags
from moneystate.cli.option import DURATION, Flags, Panel, flag, option
from moneystate.cli.options import Quiet
from moneystate.errors import BrokerError, ConfigError
from moneystate.kafka.client import admin_client, base_config, check_reachable, new_client
from moneystate.kafka.heartbeats import Heartbeats
from moneystate.log import get_log
from moneystate.records.codec import Codec
from moneystate.records.platform_records import HEARTBEAT_RECORD, Heartbeat
from moneystate.stop_signals import stop_signals

_log = get_log(__name__)

LOOKS = 4  # polls within the time after which a partition is quiet


class HeartbeatFormat(StrEnum):
    avro = "avro"
    json = "json"


@dataclass(frozen=True)
class HeartbeatFlags(Flags):
    topics: Annotated[
        str,
        option(
            "topics",
            "Topics or patterns such as 'orders-*', without their prefix, separated by commas.",
            Panel.topics,
            "TOPIC,...",
        ),
    ]
    cluster: ClusterFlags
    after: str = flag("5s", "A partition without a record for this long gets a heartbeat.", Panel.run, DURATION)
    allowance: str = flag(
        "5s", "How late producers may write: a heartbeat's time is this far behind the wall clock.", Panel.run, DURATION
    )
    heartbeat_format: HeartbeatFormat = flag(HeartbeatFormat.avro, "Format of the topics.", Panel.topics)
    quiet: Quiet = False


def heartbeat(flags: HeartbeatFlags) -> None:
    """Write heartbeats into quiet partitions.

    Quiet partitions then do not hold the watermark back, and time advances by the logs alone, so a replay has the same
    results. Records that arrive later than the allowance plus the job's bound are late. With --quiet, the command does
    not report an unreachable broker. It ends with code 0 after SIGTERM.
    """
    cluster, servers = flags.cluster, flags.cluster.bootstrap_servers
    names = [cluster.topic_prefix + name.strip() for name in flags.topics.split(",") if name.strip()]
    if not names:
        raise ConfigError("--topics: expected a topic, found none.", "give topics, separated by commas.")
    after_s = parse_ms(flags.after, "--after", 100) / 1000
    allowance_ms = parse_ms(flags.allowance, "--allowance")
    codec = Codec(HEARTBEAT_RECORD)
    write = codec.to_json if flags.heartbeat_format is HeartbeatFormat.json else codec.encode
    kafka = cluster.settings()
    check_reachable(servers, kafka)
    producer = new_client(Producer, {**base_config(servers, kafka), "acks": "all", "linger.ms": 0})
    admin = admin_client(servers, kafka)
    beats = Heartbeats(admin, producer, names, after_s, lambda time_ms: write(Heartbeat(time_ms)))
    away = False
    written: Counter[tuple[str, int]] = Counter()
    _log.info(
        "writing heartbeats into quiet partitions", topics=", ".join(names), after=flags.after,
        allowance=flags.allowance,
    )  # fmt: skip
    with stop_signals() as stopped:
        while not stopped.is_set():
            try:
                for place in beats.turn(time.monotonic(), time.time_ns() // 1_000_000 - allowance_ms):
                    written[place] += 1
                    say = _log.info if written[place] == 1 else _log.debug
                    say("heartbeat", topic=place[0], partition=place[1])
                if away:
                    _log.info("the brokers answer again")
                away = False
            except BrokerError as e:
                if not away and not flags.quiet:
                    _log.warning(str(e))
                away = True
            stopped.wait(after_s / LOOKS)
    _log.info("stopped", heartbeats=written.total(), partitions=len(written))
