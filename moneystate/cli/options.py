"""What the commands' flags have in common."""

from __future__ import annotations

from enum import StrEnum

import typer

from moneystate.errors import ConfigError

FORMATS = ("avro", "json", "confluent")
DEDUP_TTL = "1h"


class SessionLookup(StrEnum):
    none = "none"
    topic = "topic"


def flag(env: str, help: str) -> typer.models.OptionInfo:
    """A flag that may also be given as the variable MONEYSTATE_<env>."""
    option: typer.models.OptionInfo = typer.Option(help=help, envvar=f"MONEYSTATE_{env}")
    return option


def check_given(**values: str) -> None:
    """Raises ConfigError for a flag that was given an empty value."""
    for name, value in values.items():
        if not value.strip():
            raise ConfigError(f"--{name.replace('_', '-')}: expected a value, came nothing.")


def pairs(texts: list[str], flag: str) -> dict[str, str]:
    """NAME=VALUE, several times. Raises ConfigError."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag} {text}: expected NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found


def formats(texts: list[str], registry_url: str, known: list[str]) -> dict[str, str]:
    """Format by topic without prefix, of the topics `known`. Raises ConfigError."""
    found = pairs(texts, "--format")
    for topic, name in found.items():
        if topic not in known:
            raise ConfigError(f"--format {topic}={name}: expected one of the topics {', '.join(known)}.")
        if name not in FORMATS:
            raise ConfigError(f"--format {topic}={name}: expected one of {', '.join(FORMATS)}.")
        if name == "confluent" and not registry_url:
            raise ConfigError(f"--format {topic}={name}: expected a schema registry.", "add --schema-registry URL.")
    return found
