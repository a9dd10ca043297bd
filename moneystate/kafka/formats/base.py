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
    """A record for the dead letters (docs/model.md section 4). It is not an error of the program and therefore outside
    the error tree."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason: Reason = reason
        # names fields, what was expected, and symbols of enums; never other values, which may be personal data
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class ValueFormat(Protocol):
    """Describes how values are encoded in a topic. An instance may be pickled into a Spark task, so it has no
    connections."""

    @property
    def name(self) -> str: ...

    def to_canonical(self, value: bytes | None) -> bytes:
        """A topic's value as single-object encoding of a current schema. Raises Undecodable."""

    def from_canonical(self, value: bytes) -> bytes:
        """The topic's value for a value in canonical form. Raises Undecodable if it is not in canonical form."""


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

    Raises ConfigError for another name, and for a missing or malformed URL. The registry is not asked yet.
    """
    # Imported only here: a job with topics in Avro alone loads no HTTP client in its workers.
    if name == "json":
        from moneystate.kafka.formats.json_format import JsonFormat

        return JsonFormat(schemas)
    if name == "confluent":
        if not registry_url:
            raise ConfigError(
                "format confluent: expected the URL of a schema registry, found none.", "give --schema-registry."
            )
        from moneystate.kafka.formats.confluent import ConfluentFormat
        from moneystate.kafka.formats.registry import ID_WAIT_S, RegistryClient

        wait_s = ID_WAIT_S if id_wait_s is None else id_wait_s
        return ConfluentFormat(schemas, RegistryClient(registry_url), subject, wait_s)
    raise ConfigError(f"format {name!r}: expected a known value format.", "use json or confluent.")
