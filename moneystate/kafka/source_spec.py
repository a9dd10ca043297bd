"""The specification of a job's source, in a form that can be sent to Spark's processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from moneystate.engine.processor import Decoder, InputTopic


@dataclass(frozen=True)
class SourceSpec:
    """The source of a job. Times are in ms unless the name says otherwise."""

    bootstrap_servers: str
    extra: dict[str, str]
    topic_prefix: str
    group: str
    inputs: list[InputTopic]
    decoder: str  # MODULE:NAME of a Decoder, or MODULE:FUNCTION and an argument after a blank
    key_groups: int
    output_partitions: int
    source_tasks: int
    bound_ms: int
    max_future_ms: int
    dead_letter_stream: int
    max_records: int
    rules: str
    start: dict[str, Any]  # the offset at which the first batch starts
    bounded: bool
    drain: bool
    idle_timeout_s: float | None
    stop_file: str  # no batch is planned once this file exists
    only_planned: bool = False
    first_tick: int = 0  # least tick of the plans, so that there is a first batch even without records
    # Topic without prefix -> value format, for topics that are not in Avro.
    formats: dict[str, str] = field(default_factory=dict)
    registry_url: str | None = None
    # Plan no input, but this many batches (first) that rewrite the state to this version (second).
    rewrite: tuple[int, int] | None = None
    replies_s: float = 0.0  # how long a drained job keeps reading unordered inputs unless `drain_complete_file` appears
    max_record_bytes: int = 0  # limit of an event's canonical value; 0: no limit
    service: str = ""  # as in `JobSpec`
    clock: str = ""  # the topic, without prefix, where the planner takes the broker's time
    broker_skew_ms: int | None = None  # as in `BrokerClock`
    clock_every_ms: int = 1_000  # how often time goes on by itself while nothing is due
    drain_until_ms: int | None = None  # the last time that a drain runs; None: all that is left

    @property
    def drain_complete_file(self) -> str:
        """The batch loop makes it when a drained job waits for nothing more."""
        return self.stop_file + ".settled"

    @property
    def due_file(self) -> str:
        """After each batch, the batch loop writes to it when the next event or timer may be due."""
        return self.stop_file + ".due"

    @property
    def put_out_file(self) -> str:
        """After each batch, the batch loop writes to it how much the last ones have put out."""
        return self.stop_file + ".out"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def topic(self, name: str) -> str:
        return self.topic_prefix + name


def source_spec(text: str) -> SourceSpec:
    fields = json.loads(text)
    fields["inputs"] = [InputTopic(*t) for t in fields["inputs"]]
    fields["rewrite"] = None if fields["rewrite"] is None else tuple(fields["rewrite"])
    return SourceSpec(**fields)


def load_decoder(path: str) -> Decoder:
    """Loads a decoder by MODULE:NAME, or by MODULE:FUNCTION and, after a blank, the function's argument."""
    place, _, argument = path.partition(" ")
    module, _, name = place.partition(":")
    loaded = getattr(import_module(module), name)
    decoder: Decoder = loaded(argument) if argument else loaded
    return decoder
