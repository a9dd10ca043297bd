"""Versions and times as flags: which state a question is about."""

from __future__ import annotations

from moneystate.cli.times import parse_time_ms
from moneystate.errors import ConfigError
from moneystate.serving.arguments import Mistyped, version_of
from moneystate.state.v1 import header_pb2


def parse_at(
    version: str, time_text: str, version_flag: str = "--at-version", time_flag: str = "--at-time"
) -> header_pb2.At | None:
    """Raises ConfigError."""
    if version and time_text:
        raise ConfigError(f"{version_flag}, {time_flag}: expected one of the two, found both.", "leave one out.")
    if version:
        return header_pb2.At(version=parse_version(version, version_flag))
    if not time_text:
        return None
    return header_pb2.At(event_time_ms=parse_time_ms(time_text, time_flag))


def parse_version(text: str, flag: str) -> header_pb2.Version:
    """Raises ConfigError."""
    try:
        return version_of(text)
    except Mistyped as e:
        raise ConfigError(f"{flag} {e}", "use a version as moneystate ask SERVICE status shows it.") from None
