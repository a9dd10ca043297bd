"""What refuses a downgrade before anything is rewritten."""

from __future__ import annotations

from typing import Any

import pytest

from moneystate.engine import slots
from moneystate.engine.avro import MAGIC
from moneystate.engine.items import Item
from moneystate.errors import CheckpointError
from services.enrichment import topics
from services.enrichment.migrations import LEFT_ALONE, WRITTEN
from services.enrichment.state_model import STATE
from state_tools.downgrade_check import check_buffers, check_entries
from tests.reference import codec

VERSIONS = STATE.versions
ADDRESS: dict[str, Any] = {
    "id": "a",
    "userId": "ann",
    "processedAt": 1,
    "address": "x",
    "residentCountryCode": "FI",
    "postalCode": "1",
}
FORGET: dict[str, Any] = {"id": "r", "userId": "ann", "processedAt": 1, "requestedBy": "desk"}


def chunk(*values: bytes) -> bytes:
    out = bytearray()
    for offset, value in enumerate(values):
        item: Item = (1, 0, 0, topics.USER_EVENTS, 0, offset, 1, b"ann", value)
        slots.encode_item(out, item)
    return slots.encode_chunk(len(values), bytes(out))


def test_entries_of_all_state_versions_lead_back() -> None:
    everything = dict.fromkeys([*WRITTEN[1], *WRITTEN[2], *LEFT_ALONE], 5)
    check_entries(VERSIONS, "here", everything, 1)


def test_an_entry_without_a_function_back_is_refused() -> None:
    with pytest.raises(CheckpointError, match="found 5 of schema ffffffffffffffff"):
        check_entries(VERSIONS, "here", {MAGIC + b"\xff" * 8: 5}, 1)


def test_a_buffered_event_that_the_older_program_does_not_know_is_refused() -> None:
    known, newer = codec.encode("ChangeAddressEvent", ADDRESS), codec.encode("ForgetUserRequested", FORGET)
    check_buffers(VERSIONS, "here", [chunk(known, known)], 1)
    check_buffers(VERSIONS, "here", [chunk(known, newer)], 2)
    with pytest.raises(CheckpointError, match="found 2 of schema"):
        check_buffers(VERSIONS, "here", [chunk(known, newer), chunk(newer)], 1)
