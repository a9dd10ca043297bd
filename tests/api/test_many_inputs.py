"""Inputs from a configuration: one record type from more topics than there are ranks."""

from __future__ import annotations

import json

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
