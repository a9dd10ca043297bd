"""A service, and one job of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moneystate.engine.items import Output
from moneystate.engine.keys import check_kinds
from moneystate.engine.processor import InputTopic, Processor, bounds_of
from moneystate.ports.state import StateModel

# Rules that say which program ran. A program of another version has others.
VERSION_RULES = ("known_schemas", "logic", "state_versions")
# How many versions of records of state a plain service has; a program with fewer cannot read them.
STATE_VERSIONS = "state_versions"

AskedAgain = Callable[[bytes, bytes], Output | None]


class Stream(NamedTuple):
    """How the topic of an output is created; `partitions` None: as many as other topics have."""

    partitions: int | None = None
    compacted: bool = False


@dataclass(frozen=True)
class JobSpec:
    """A service as a job. Names of topics without prefix; `decoder`: MODULE:NAME, or MODULE:FUNCTION and an argument;
    `rules`: all that decides results besides the logs; `asked_again`: the request to the outside that an entry of the
    state is still waiting for, if it is; `pending_counter`: the count of what waits for records of unordered inputs,
    None: there are none; `reader_rules`: names of the rules that readers of the changelog need, to tell what is over in
    the state; `bound_ms`, `max_future_ms`: of the inputs that have none of their own;
    `application`: see `application_id`;
    `max_record_bytes`: of an event's value, 0 for no limit; `largest`: bytes of the largest record of an output topic,
    as far as it is known; `schemas`: MODULE:NAME of a plain service, whose topics have schemas of its own, empty: those
    of the program; `created`: of the streams that are not created as all others are;
    `timed`: the streams that are timed."""

    name: str
    inputs: list[InputTopic]
    decoder: str
    make: Callable[[], Processor[Any]]
    streams: list[str]
    dead_letter_stream: int
    changelog: str
    commits: str
    rules: Mapping[str, Any]
    bound_ms: int
    max_future_ms: int
    asked_again: AskedAgain
    state: StateModel
    pending_counter: str | None = None
    reader_rules: Sequence[str] = ()
    application: str = ""
    max_record_bytes: int = 0
    largest: Mapping[str, int] = field(default_factory=dict)
    schemas: str = ""
    created: Mapping[str, Stream] = field(default_factory=dict)
    timed: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_kinds(self.state.kinds)

    def application_id(self, topic_prefix: str) -> str:
        """Names transactions, markers and the consumer group where none is given: with the service in it, so that two
        services never fence each other. One with an `application` has the topic prefix alone, or that without one."""
        if self.application:
            return topic_prefix or self.application
        return topic_prefix + self.name

    def bounds(self) -> dict[int, int]:
        """As `run_batch` takes them."""
        return bounds_of(self.inputs, self.bound_ms)

    def is_program_of(self, saved: Mapping[str, Any]) -> bool:
        """Whether the rules that a checkpoint or savepoint has kept are those of this version of the program."""
        return all(saved.get(name) == self.rules.get(name) for name in VERSION_RULES)


@dataclass(frozen=True)
class ServiceSpec:
    """`name`: of its jobs, as checkpoints and savepoints keep it; `job`: by rules; what is left out of them has its
    default, what is not its own is ignored; `formatted`: topics whose format can be chosen; `formats`: the one that a
    topic has else, where it is not Avro."""

    name: str
    job: Callable[[Mapping[str, Any]], JobSpec]
    state: StateModel
    formatted: list[str]
    formats: Mapping[str, str] = field(default_factory=dict)
