"""Computes message size limits: what output topics and producers must accept for any input.

A rule bounds the size of records at intake (`moneystate.engine.intake`), so that the decision is the same in every run.
From that follows what a topic must accept. A start checks it (`moneystate.kafka.topics`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from moneystate.engine.limits import largest_message
from moneystate.errors import ConfigError
from moneystate.kafka.settings import resolved

PRODUCER_SETTING = "message.max.bytes"
BATCH_BYTES = 512 * 1024  # up to which a producer fills its batches; the topic's limit applies to batches
BATCH_OVERHEAD = 1024
PRODUCER_BYTES = 8 * 1024 * 1024  # what a producer accepts at least, unless the user sets another value


def message_bytes(largest: int, value_format: str) -> int:
    """The `max.message.bytes` that a topic needs. `largest`: size in bytes of its largest record in Avro."""
    return largest_message(largest, value_format == "json") + BATCH_OVERHEAD


def producer_bytes(extra: Mapping[str, str], needed: int) -> int:
    """A producer's `message.max.bytes`; a user's setting wins. Raises ConfigError if that is too small."""
    given = resolved(extra).get(PRODUCER_SETTING)
    if given is None:
        return max(PRODUCER_BYTES, needed)
    if not re.fullmatch("[0-9]{1,18}", given) or int(given) < needed:
        raise ConfigError(
            f"--kafka-config {PRODUCER_SETTING}={given}: expected at least {needed}, the largest record that the job "
            "may write.",
            "raise it, or lower --max-record-bytes.",
        )
    return int(given)
