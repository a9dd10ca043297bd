"""Loads in one format, so that services can be compared with the enrichment in the same: by default they are JSON, and
its topics are Avro."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import suppress

from moneystate.cli.services import load_all
from moneystate.engine.processor import Rejected
from moneystate.runtime.json_topic import AVRO, JSON, JsonTopic
from moneystate.runtime.plans import plan_of
from tests.bench.backlog import INPUTS, PARTITIONS, create_topics, messages
from tests.bench.load import Load, Record
from tests.enrichment import topics
from tests.formats.values import SET
from tests.workloads.workload_log import log_producer

JSON_FLAGS = [f"--format={topic}={JSON}" for topic in [*INPUTS, topics.STREAMS[0]]]


def in_avro(name: str, load: Load) -> Load:
    """The load of a service whose configuration has `format`, of all its topics. Raises ValueError for another."""
    tables = load.tables.replace(f"[{name}]\n", f'[{name}]\nformat = "{AVRO}"\n', 1)
    plans = [plan_of(reference) for reference in load_all(name, tomllib.loads(tables))]
    if any(declared.format != AVRO for plan in plans for declared in plan.service.inputs):
        raise ValueError(f"{name}: expected a format of all topics in its configuration, found none")
    read = {i.topic: JsonTopic(plan, i.topic) for plan in plans for i in plan.service.inputs}

    def records(n: int) -> Iterator[Record]:
        for topic, key, value in load.records(n):
            yield Record(topic, key, read[topic].to_canonical(value))

    return load._replace(tables=tables, records=records)


def copy_as_json(servers: str, prefix: str, to: str) -> None:
    """The enrichment's inputs, from topics in Avro to new ones."""
    create_topics(servers, [to + topic for topic in INPUTS], PARTITIONS, {"retention.ms": "-1"})
    fmt = JsonTopic(topics.PLAN, INPUTS[0])  # it knows the types of all topics
    producer = log_producer(servers)
    for topic in INPUTS:
        for message in messages(servers, prefix + topic):
            value, at_ms = message.value(), message.timestamp()[1]
            with suppress(Rejected):  # some records of the log are not Avro: they stay as they are
                if value:
                    SET.open(value)
                    value = fmt.from_canonical(value)
            producer.produce(to + topic, value, message.key(), message.partition() or 0, timestamp=at_ms)
            producer.poll(0)
    assert producer.flush(60) == 0
