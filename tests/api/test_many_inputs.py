"""Inputs from a configuration: one record type from more topics than there are ranks."""

from __future__ import annotations

import json

import pytest

from moneystate.errors import ServiceError
from moneystate.runtime.job import check_runs
from moneystate.testing import Bench
from tests.api.services.many import Config, InputConfig, Part, many

TOPICS = "mlkjihgfedcba"  # against the order of the names


def test_at_one_time_topics_are_read_in_the_order_of_declaration() -> None:
    formats = ("avro", "json")
    config = Config(tuple(InputConfig(topic, formats[n % 2]) for n, topic in enumerate(TOPICS)))
    service = many(config)
    bench = Bench(service)
    for topic in sorted(TOPICS):
        to = next(i for i in service.inputs if i.topic == topic)
        bench.send(Part("p", topic, 5_000), to=to)
        if to.format == "json":
            bench.send_raw(topic, json.dumps({"id": "q", "source": topic, "at": 5_000}))
    (lines,) = service.outputs
    last = {line.id: line.sources for line in bench.out(lines)}
    assert last == {"p": TOPICS, "q": TOPICS[1::2]}
    bench.end()


PATTERN = many(Config((InputConfig("parts-*", "json"),)))


def test_a_bench_takes_the_records_of_a_pattern_by_its_name() -> None:
    bench = Bench(PATTERN)
    bench.send_raw("parts-*", json.dumps({"id": "p", "source": "s", "at": 5_000}))
    bench.send(Part("q", "s", 6_000))
    bench.end()
    assert [line.id for line in bench.out(PATTERN.outputs[0])] == ["p", "q"]


def test_a_pattern_that_matches_the_services_own_topic_is_refused() -> None:
    with pytest.raises(ServiceError, match=r"input '\*': the pattern matches \S+, which the service writes"):
        check_runs(many(Config((InputConfig("*", "json"),))))
