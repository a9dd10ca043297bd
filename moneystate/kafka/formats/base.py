"""The interface of a value format, and the error for values that do not decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from moneystate.errors import ConfigError

if TYPE_CHECKING:
    from moneystate.kafka.formats.schemas import SchemaSet

Reason = Literal[
    "null_value",
    "unknown_schema",
    "malformed",
    "trailing_bytes",
    "wrong_topic",
    "no_event_time",
    "too_far_ahead",
]


class Undecodable(Exception):
    """A record for the dead letters (DESIGN.md, section 3). No fault of the program, so not in the tree of errors.

    `detail` names fields and what was expected of them, never their values: those may be personal data.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason: Reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class ValueFormat(Protocol):
    """How values stand in a topic. An instance may be pickled into a Spark task: connections are no part of it."""

    @property
    def name(self) -> str: ...

    def to_canonical(self, value: bytes | None) -> bytes:
        """A topic's value as single-object encoding of a current schema. Raises Undecodable."""

    def from_canonical(self, value: bytes) -> bytes:
        """A value in canonical form as it stands in the topic. Raises Undecodable if it is not in canonical form."""


def subject_of(topic: str) -> str:
    """The registry's subject for the values of a topic: Confluent's TopicNameStrategy."""
    return f"{topic}-value"


def make_format(
    name: str,
    schemas: SchemaSet,
    registry_url: str | None = None,
    subject: str | None = None,
    id_wait_s: float | None = None,
) -> ValueFormat:
    """The format `json` or `confluent`. The latter needs the registry's URL, and for writing the subject. `id_wait_s`:
    how long it waits for an id that the registry does not know; None: as long as a batch does.

    Raises ConfigError for another name, no URL or one that is none. Nothing is asked of the registry yet.
    """
    # Imported when asked for: a job whose topics are all plain Avro loads no HTTP client in its workers.
    if name == "json":
        from moneystate.kafka.formats.json_format import JsonFormat

        return JsonFormat(schemas)
    if name == "confluent":
        if not registry_url:
            raise ConfigError("The format confluent needs a schema registry.", "give the registry's URL.")
        from moneystate.kafka.formats.confluent import ConfluentFormat
        from moneystate.kafka.formats.registry import ID_WAIT_S, RegistryClient

        wait_s = ID_WAIT_S if id_wait_s is None else id_wait_s
        return ConfluentFormat(schemas, RegistryClient(registry_url), subject, wait_s)
    raise ConfigError(f"There is no value format {name!r}.", "take json or confluent.")
