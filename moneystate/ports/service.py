"""The port that describes a service as a job: inputs, outputs, rules and the processor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moneystate.engine.items import Output
from moneystate.engine.keys import check_kinds
from moneystate.engine.processor import InputTopic, Processor, bounds_of
from moneystate.ports.state import StateModel

# Rules that identify the program version.
VERSION_RULES = ("json_fields", "known_schemas", "logic", "state_versions")
# The number of versions of state records of a service. A program with fewer versions cannot read its state.
STATE_VERSIONS = "state_versions"

# The fields that a service reads as JSON. For Avro they are strings.
JSON_FIELDS = "json_fields"
# The schemas (in hex) of all entries that the state of a service may have, by state. None: not recorded, because
# an unfinished batch of an earlier program does not have the rule.
STATE_SCHEMAS = "state_schemas"
# It has "timer NAME" for each timer that was ever declared: their entries can be read without the declaration.
TIMER_STATE = "timer "
# It has "unique TOPIC" for each input: the form of the ids that `unique` has seen. Earlier programs had one entry for
# each id and did not record it.
UNIQUE_STATE = "unique "

# The number of each topic in the state of a service.
TOPICS = "topics"
# The inputs that are timed streams.
TIMED = "timed"
# The inputs in arrival order.
ARRIVALS = "arrivals"
# The inputs that are tables, with what decides since when their rows hold.
TABLES = "table_inputs"  # services have rules of the name `tables`
# Rules with a part for each topic. A new topic has no part in the rules of earlier runs.
_OF_TOPICS = (TOPICS, TIMED, ARRIVALS, TABLES, "bounds", "max_futures")

TopicSchemas = Mapping[str, Sequence[Mapping[str, Any]]]
AskedAgain = Callable[[bytes, bytes], Output | None]


def rule_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The rules that differ, except the program's versions, with both values. A rule of an added input does not count,
    because nothing of that input was read before."""
    known = before.get(TOPICS)
    names = sorted({*before, *now} - {*VERSION_RULES, STATE_SCHEMAS})
    pairs = {name: (before.get(name), _of_known(name, now.get(name), known)) for name in names}
    return {name: (then, after) for name, (then, after) in pairs.items() if then != after}


def _of_known(name: str, rule: Any, known: Mapping[str, Any] | None) -> Any:
    if name not in _OF_TOPICS or known is None or rule is None:
        return rule
    if isinstance(rule, Mapping):
        return {topic: of_topic for topic, of_topic in rule.items() if topic in known} or None
    return [topic for topic in rule if topic in known] or None


class Stream(NamedTuple):
    """Describes how the topic of an output is created."""

    partitions: int | None = None  # None: as many as the job's other topics
    compacted: bool = False
    keep_ms: int = 0  # of a compacted one: for how long; 0: for good


@dataclass(frozen=True)
class JobSpec:
    """A service as a job. Topic names have no prefix here."""

    name: str
    inputs: list[InputTopic]
    decoder: str  # MODULE:NAME of a Decoder, or MODULE:FUNCTION and an argument after a blank
    make: Callable[[], Processor[Any]]
    streams: list[str]
    dead_letter_stream: int
    changelog: str
    commits: str
    rules: Mapping[str, Any]  # everything besides the logs that results depend on
    bound_ms: int  # out-of-orderness bound of the inputs that declare none
    max_future_ms: int  # how far ahead of its Kafka timestamp an event may be, for the inputs that declare no limit
    asked_again: AskedAgain  # the request to an external service that an entry of state still waits for, if any
    state: StateModel
    # The counter of records that wait for unordered inputs; None: the job has no such inputs.
    pending_counter: str | None = None
    reader_rules: Sequence[str] = ()  # rules that readers of the changelog need to tell what has expired
    # Makes processors for a run that gives topics other formats than the declared ones; None: formats do not matter.
    make_in: Callable[[Mapping[str, str]], Callable[[], Processor[Any]]] | None = None
    max_record_bytes: int = 0  # limit of an event's value; 0: no limit
    # Size in bytes of the largest record of an output topic, where it is known.
    largest: Mapping[str, int] = field(default_factory=dict)
    # MODULE:NAME of the service, by which other processes make it; empty: none, for tests of the engine alone.
    service: str = ""
    # Output streams whose topics are created with other settings than the rest.
    created: Mapping[str, Stream] = field(default_factory=dict)
    timed: Sequence[str] = ()  # output streams that carry their writer's order
    dated: Sequence[str] = ()  # output streams whose records say their Kafka timestamp
    # The schemas (in hex) that it can read, by state; see `STATE_SCHEMAS`.
    readable: Mapping[str, Collection[str]] = field(default_factory=dict)
    code: str = ""  # digest of the functions of a service; empty: users write none
    functions: Mapping[str, str] = field(default_factory=dict)  # the digest of each of them, by name
    copies_tables: bool = False  # steps read rows of any key, so each worker has copies of tables
    counters: Sequence[str] = ()  # those that the progress shows at 0, too
    # Avro schemas of the records in each topic, by topic without prefix, as far as they are declared.
    topic_schemas: Callable[[], TopicSchemas] = dict

    def __post_init__(self) -> None:
        check_kinds(self.state.kinds)

    def processors(self, formats: Mapping[str, str]) -> Callable[[], Processor[Any]]:
        """Makes the processors of a run. `formats`: of its topics."""
        return self.make if self.make_in is None else self.make_in(formats)

    def application_id(self, topic_prefix: str) -> str:
        """Names transactions, markers and the consumer group unless the user gives a name. It contains the service's
        name, so that two services never fence each other."""
        return topic_prefix + self.name

    def bounds(self) -> dict[int, int]:
        """The out-of-orderness bounds, in the form that `run_batch` takes."""
        return bounds_of(self.inputs, self.bound_ms)

    @property
    def clock(self) -> str:
        """The topic in which a run takes the broker's time; empty: no input is in arrival order."""
        return f"{self.name}-clock" if any(t.arrival for t in self.inputs) else ""

    def is_program_of(self, saved: Mapping[str, Any]) -> bool:
        """Whether the rules in a checkpoint or savepoint are those of this version of the program."""
        return all(saved.get(name) == self.rules.get(name) for name in VERSION_RULES)


@dataclass(frozen=True)
class ServiceSpec:
    """A service as the platform's tools know it, whatever its rules."""

    name: str  # of its jobs, as checkpoints and savepoints record it
    # Makes the job for given rules: missing ones have their defaults, unknown ones are ignored.
    job: Callable[[Mapping[str, Any]], JobSpec]
    state: StateModel
    formatted: list[str]  # the topics with values; their format can be chosen, unless they are `decoded`
    # Default value format of topics that do not default to Avro.
    formats: Mapping[str, str] = field(default_factory=dict)
    decoded: Sequence[str] = ()  # topics of `formatted` that only functions of the service read: a format has no effect
