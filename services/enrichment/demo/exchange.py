"""Sends the scenario's events and heartbeats to Kafka, and reads enriched money and dead letters back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, Producer, TopicPartition

from moneystate.engine import deadletter
from moneystate.errors import BrokerError
from moneystate.kafka.client import admin_client, base_config, range_consumer, reason
from moneystate.kafka.topics import TopicSpec, ensure_topics
from moneystate.runtime.job import service_spec
from moneystate.runtime.json_topic import JsonTopic
from moneystate.runtime.plans import plan_of
from services.enrichment.demo.promises import Arrivals, DeadLetter, Place
from services.enrichment.demo.scenario import Chapter, Enriched, Send, user_info

REFERENCE = "services.enrichment.service:service"
JOB = service_spec(REFERENCE).job({})
INPUTS = [t.name for t in JOB.inputs if t.ordered]
ENRICHED, LOOKUP_REQUESTS, DEAD_LETTERS = JOB.streams
LOOKUPS = [LOOKUP_REQUESTS, *(t.name for t in JOB.inputs if not t.ordered)]
# librdkafka would print failures, and the end of the broker, between the tables. Failures are raised anyway.
QUIET = {"log_level": "0"}
FLUSH_S = 30.0
POLL_S = 0.1
END_S = 30.0  # a broker on loopback normally reports the end of a partition within milliseconds


class Exchange:
    """The demo's producer and read_committed consumer. It creates the topics."""

    def __init__(self, bootstrap_servers: str, partitions: int) -> None:
        self._partitions = partitions
        self._json = {name: JsonTopic(plan_of(REFERENCE), name) for name in [*INPUTS, ENRICHED]}
        # Job and worker would create the topics, too, but the first events are sent while these start. The scenario's
        # times are years ago, so the input records must not expire.
        wanted = [TopicSpec(name, partitions, keep_for_good=True) for name in INPUTS]
        wanted += [TopicSpec(name, partitions) for name in (ENRICHED, DEAD_LETTERS)]
        wanted += [TopicSpec(name, partitions, keep_for_good=True) for name in LOOKUPS]
        ensure_topics(admin_client(bootstrap_servers, QUIET), wanted, create=True)
        # murmur2 is the partitioner of Java clients, so that all records of a user are in one partition.
        settings = {"partitioner": "murmur2_random", "enable.idempotence": True}
        self._producer = Producer({**base_config(bootstrap_servers, QUIET), **settings})
        self._consumer = range_consumer(bootstrap_servers, QUIET, "moneystate-demo", **{"fetch.wait.max.ms": 50})
        self._next: dict[tuple[str, int], int] = {
            (name, p): OFFSET_BEGINNING for name in (ENRICHED, DEAD_LETTERS) for p in range(partitions)
        }

    def close(self) -> None:
        self._consumer.close()

    # In

    def send(self, chapter: Chapter) -> dict[Place, Send]:
        """Sends the chapter's events, then its heartbeats. Returns the events by their places in Kafka. Raises
        BrokerError."""
        places: dict[Place, Send] = {}
        failures: list[KafkaError] = []
        for sent in chapter.sends:
            self._producer.produce(
                sent.topic,
                self._encode(sent.topic, sent.event),
                sent.key.encode(),
                on_delivery=_on_delivery(places, failures, sent),
            )
        for name in INPUTS:
            beat = self._encode(name, {"type": "Heartbeat", "processedAt": chapter.advance_to})
            for p in range(self._partitions):
                self._producer.produce(name, beat, partition=p, on_delivery=_on_delivery(places, failures, None))
        if self._producer.flush(FLUSH_S) or failures:
            problem = failures[0].str() if failures else f"it took more than {FLUSH_S:.0f} s"
            raise BrokerError(f"expected to send the scenario's events, but {problem}.", "run the demo again.")
        return places

    def _encode(self, topic: str, event: Mapping[str, Any]) -> bytes:
        return self._json[topic].to_canonical(json.dumps(event).encode())

    # Out

    def receive(self, wanted: int, timeout_s: float, check: Callable[[], None]) -> Arrivals:
        """Waits until `wanted` enriched events have arrived or the time is up. Returns them and everything else that
        has been committed by then. `check` is called regularly and may raise to end the wait."""
        arrivals = Arrivals()
        deadline = time.monotonic() + timeout_s
        self._assign()
        while len(arrivals.money) < wanted and time.monotonic() < deadline:
            check()
            self._poll(arrivals)
        self._read_to_end(arrivals)
        return arrivals

    def _read_to_end(self, arrivals: Arrivals) -> None:
        self._assign()
        unread = set(self._next)
        deadline = time.monotonic() + END_S
        while unread and time.monotonic() < deadline:
            unread -= self._poll(arrivals)
        if unread:
            raise BrokerError(
                f"{ENRICHED}: expected to read it to its end within {END_S:.0f} s.", "run the demo again."
            )

    def _assign(self) -> None:
        """Assigns the partitions again from the current offsets. A consumer reports the end of a partition only once
        for each assignment."""
        self._consumer.assign([TopicPartition(name, p, offset) for (name, p), offset in self._next.items()])

    def _poll(self, arrivals: Arrivals) -> set[tuple[str, int]]:
        """Reads some records. Returns the partitions that were read to their end."""
        ended = set()
        for message in self._consumer.consume(1000, POLL_S):
            error = message.error()
            if error is None:
                self._take(message, arrivals)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(_place(message)[:2])
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise BrokerError(
                    f"{ENRICHED}: expected to read it, but {reason(KafkaException(error))}.", "run the demo again."
                )
        return ended

    def _take(self, message: Message, arrivals: Arrivals) -> None:
        name, partition, offset = _place(message)
        self._next[name, partition] = offset + 1
        if name == ENRICHED:
            arrivals.money.append(_enriched(json.loads(self._json[ENRICHED].from_canonical(message.value() or b""))))
        else:
            arrivals.dead_letters.append(_dead_letter(message))


def _on_delivery(
    places: dict[Place, Send], failures: list[KafkaError], sent: Send | None
) -> Callable[[KafkaError | None, Message], None]:
    def note(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        elif sent is not None:
            places[_place(message)] = sent

    return note


def _place(message: Message) -> Place:
    return cast(
        Place, (message.topic(), message.partition(), message.offset())
    )  # a delivered message always has all three


def _enriched(value: Mapping[str, Any]) -> Enriched:
    session = value["sessionInfo"]
    return Enriched(
        money_id=value["money"]["id"],
        status=value["sessionStatus"],
        client_country=None if session is None else session["clientCountryCode"],
        user_info=user_info(value["userInfo"]),
        first_occurrence=value["firstOccurrence"],
    )


def _dead_letter(message: Message) -> DeadLetter:
    headers = cast("list[tuple[str, bytes]]", message.headers() or [])
    about = {
        name.removeprefix(deadletter.PREFIX): value.decode()
        for name, value in headers
        if name.startswith(deadletter.PREFIX)
    }
    return DeadLetter((about["topic"], int(about["partition"]), int(about["offset"])), about["reason"])
