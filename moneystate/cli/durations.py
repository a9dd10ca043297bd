"""Durations as people write them: `500ms`, `20s`, `10m`, `1h`, `1d`."""

from __future__ import annotations

import re

from moneystate.errors import ConfigError

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MAX_DAYS = 1_000_000  # 2,700 years; sums of such a time and any event time still fit into 64 bits
_FORM = re.compile(r"([0-9]{1,18})(ms|s|m|h|d)")


def parse_ms(text: str, flag: str, at_least: int = 0) -> int:
    """Milliseconds. Raises ConfigError that names `flag`."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{flag} {text}: expected a number and a unit.", "for example 500ms, 20s, 10m, 1h or 1d.")
    value = int(match[1]) * UNITS_MS[match[2]]
    if value < at_least:
        raise ConfigError(f"{flag} {text}: expected at least {at_least} ms.", "give a longer time.")
    if value > MAX_DAYS * UNITS_MS["d"]:
        raise ConfigError(f"{flag} {text}: expected at most {MAX_DAYS}d.", "give a shorter time.")
    return value
