"""The formats of topics, as --format gives them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moneystate.cli.option import pairs
from moneystate.errors import ConfigError

FORMATS = ("avro", "json", "confluent")


def formats(
    texts: list[str], registry_url: str, known: list[str], declared: Mapping[str, str] | None = None,
    decoded: Collection[str] = (),
) -> dict[str, str]:  # fmt: skip
    """The formats of the topics `known`, without prefix. `declared`: formats of topics that no flag names; `decoded`:
    topics that only functions of the service read. Raises ConfigError."""
    declared, given = declared or {}, pairs(texts, "--format")
    for topic in given:
        if topic in decoded:
            raise ConfigError(
                f"--format {topic}={given[topic]}: expected a topic with a format, found one that the service decodes.",
                "leave the flag out; if the service has a configuration for the topic, change that.",
            )
    by_topic = {**declared, **given}
    for topic, name in by_topic.items():
        if topic not in known:
            raise ConfigError(
                f"--format {topic}={name}: expected a topic of the job, found {topic}.",
                f"name one of {', '.join(known)}, without --topic-prefix.",
            )
        if name not in FORMATS and name != declared.get(topic):
            raise ConfigError(
                f"--format {topic}={name}: expected a format, found {name}.", f"give one of {', '.join(FORMATS)}."
            )
        if name == "confluent" and not registry_url:
            raise ConfigError(f"--format {topic}={name}: expected a schema registry.", "add --schema-registry URL.")
    return by_topic
