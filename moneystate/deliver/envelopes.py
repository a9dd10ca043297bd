"""CloudEvents envelopes around the events of a batch. The event's bytes are the envelope's `data`, as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from moneystate.deliver.headers import attributes
from moneystate.deliver.records import Delivery

_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")  # JSON has them between its tokens only


class Format(StrEnum):
    ARRAY = "array"
    NDJSON = "ndjson"


def envelope(delivery: Delivery) -> bytes:
    text = json.dumps(dict(attributes(delivery)), ensure_ascii=False, separators=(",", ":"))
    kind = json.dumps(delivery.content_type, ensure_ascii=False)
    return f'{text[:-1]},"datacontenttype":{kind},"data":'.encode() + delivery.body + b"}"


def body(envelopes: Sequence[bytes], format: Format) -> bytes:
    if format is Format.ARRAY:
        return b"[" + b",".join(envelopes) + b"]"
    return b"".join(one.translate(_LINE_ENDS) + b"\n" for one in envelopes)


def body_bytes(bytes_of_envelopes: int, number: int, format: Format) -> int:
    """The size of a body with so many envelopes."""
    if format is Format.ARRAY:
        return bytes_of_envelopes + number + 1 if number else 2
    return bytes_of_envelopes + number
