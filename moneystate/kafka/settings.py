"""The user's Kafka client settings (`--kafka-config`, `--kafka-config-file`) and references to secrets in them.

A value can be a reference, as with Kafka's configuration providers (KIP-297):

    ${env:NAME}         an environment variable
    ${file:PATH}        all of a file, without the blanks around it
    ${file:PATH:NAME}   a setting of a properties file

Settings keep these references in Spark's plan and on their way to other processes and machines. Only `resolved`
replaces them, when a client is created, so that no secret is written anywhere. Each process that creates a client
therefore needs the variable or the file. A client that is created after the file has changed gets the new value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from moneystate.errors import ConfigError

FLAG, FILE_FLAG = "--kafka-config", "--kafka-config-file"
REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
# settings that librdkafka keeps out of its own logs
SECRET = re.compile(r"password|passphrase|secret|key\.pem$|oauthbearer\.config$")
COMMENTS = ("#", "!")


def kafka_settings(file: Path | None, pairs: Mapping[str, str]) -> dict[str, str]:
    """The file's settings, each as a reference into the file, overridden by `pairs`.

    Raises ConfigError for a file that cannot be read, and for a secret among `pairs`, because other users of the
    machine can read command lines.
    """
    for name, value in pairs.items():
        if is_secret(name) and not REFERENCE.search(value):
            raise ConfigError(
                f"{FLAG} {name}: expected a reference, as everyone on this machine can read a command line.",
                f"put it into a file for {FILE_FLAG}, or give '{name}=${{env:NAME}}' or '{name}=${{file:PATH}}'.",
            )
    if file is None:
        return dict(pairs)
    path = file.absolute()
    return {**{name: f"${{file:{path}:{name}}}" for name in read_properties(path)}, **pairs}


def is_secret(name: str) -> bool:
    return SECRET.search(name) is not None


def resolved(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with references replaced by their values. Raises ConfigError, which never contains a value."""
    return {name: _expanded(name, value, into_files=True) for name, value in settings.items()}


def _expanded(name: str, text: str, into_files: bool) -> str:
    return REFERENCE.sub(lambda m: _value(name, m[1], m[2], into_files), text)


def _value(name: str, kind: str, place: str, into_files: bool) -> str:
    if kind == "env":
        if place not in os.environ:
            raise ConfigError(
                f"{name}: expected the environment variable {place}, it is not set.",
                "set it for each process of the job, or put the value into a file.",
            )
        return os.environ[place]
    path, _, key = place.rpartition(":")
    if not path:
        return _text(Path(place), name).strip()
    settings = read_properties(Path(path), name)
    if key not in settings:
        raise ConfigError(f"{name}: expected a line {key}=... in {path}, found none.", "add it to the file.")
    # a settings file may have references, too; their values are not resolved again
    return _expanded(name, settings[key], into_files=False) if into_files else settings[key]


def read_properties(path: Path, wanted: str = FILE_FLAG) -> dict[str, str]:
    """Reads NAME=VALUE lines. Empty lines and comments (`#`, `!`) are skipped. Raises ConfigError, which names
    `wanted`."""
    settings = {}
    for number, line in enumerate(_text(path, wanted).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(COMMENTS):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ConfigError(
                f"{wanted}: {path}, line {number}: expected NAME=VALUE, found something else.", "mend the line."
            )
        settings[name.strip()] = value.strip()
    return settings


def _text(path: Path, wanted: str) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not text"
        raise ConfigError(
            f"{wanted}: expected a file {path} that can be read, but {why}.", "check the path and its permissions."
        ) from None


def refusal(why: str, config: Mapping[str, object]) -> ConfigError:
    """librdkafka's reason for refusing `config`, without the value that it quotes."""
    named = [name for name in config if f'"{name}"' in why]
    unknown = re.search(r'No such configuration property: "([^"]+)"', why)
    if unknown:
        problem = f"there is no setting {unknown[1]}"
    elif named:
        allowed = re.search(r"outside allowed range (-?\d+\.\.-?\d+)", why)
        problem = f"it refuses the value of {named[-1]}{f', allowed are {allowed[1]}' if allowed else ''}"
    else:
        problem = why
        for name, value in config.items():
            if is_secret(name) and value:
                problem = problem.replace(str(value), "***")
    return ConfigError(
        f"{FLAG}: expected settings that librdkafka takes, but {problem}.", "see librdkafka's CONFIGURATION.md."
    )
