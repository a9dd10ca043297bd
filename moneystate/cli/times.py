"""Times as people write them: RFC 3339, with a zone."""

from __future__ import annotations

from moneystate.engine.avro import Malformed
from moneystate.errors import ConfigError
from moneystate.records.iso_time import to_ms


def parse_time_ms(text: str, flag: str) -> int:
    """Milliseconds since the epoch. Raises ConfigError that names `flag`."""
    try:
        return to_ms(text)
    except Malformed as e:
        raise ConfigError(f"{flag} {text}: {e}.", "for example 2026-05-04T12:00:00Z.") from None
