"""Signatures of Standard Webhooks, version 1: HMAC with SHA-256 over id, time and body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

PREFIX: Final = "whsec_"
# The specification has these limits. A shorter key could be guessed.
LEAST_BYTES: Final = 24
MOST_BYTES: Final = 64


def key_of(text: str) -> bytes:
    """The key of a secret such as `whsec_` and Base64. Raises ValueError, whose text does not repeat the secret."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a secret is whsec_ and Base64") from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(f"a secret has {LEAST_BYTES} to {MOST_BYTES} bytes")
    return key


def signed(keys: Sequence[bytes], webhook_id: str, now_ms: int, body: bytes) -> dict[str, str]:
    """The headers of an attempt. Each key signs, so a receiver may have the old one or the new one."""
    seconds = str(now_ms // 1000)
    headers = {"webhook-id": webhook_id, "webhook-timestamp": seconds}
    if keys:
        text = f"{webhook_id}.{seconds}.".encode() + body
        headers["webhook-signature"] = " ".join(_signature(key, text) for key in keys)
    return headers


def _signature(key: bytes, text: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(key, text, hashlib.sha256)).decode()
