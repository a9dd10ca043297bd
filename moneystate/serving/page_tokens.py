"""Page tokens: where a listing continues, and in which versions.

    base64url(format (1 byte) | MAC (16 bytes) | JSON [request digest, versions, after])

The MAC is HMAC-SHA256 over the rest, cut to 16 bytes, with the key of the installation. A token is refused if it was
changed, or made by another installation or for another request.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from google.protobuf.message import Message

from moneystate.errors import ConfigError
from moneystate.replica.model import Version
from moneystate.serving.failures import Failure

FORMAT: Final = b"\x01"
MAC_BYTES: Final = 16
KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class PagePosition:
    """Describes where a listing continues."""

    versions: tuple[Version, ...]  # the versions that the listing reads
    after: bytes  # the store's own position


class PageTokens:
    def __init__(self, key: bytes) -> None:
        self.key = key

    def issue(self, request: Message, place: PagePosition) -> str:
        versions = [[v.epoch, v.batch] for v in place.versions]
        body = json.dumps([_digest(request), versions, place.after.hex()], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(FORMAT + self._mac(body) + body).decode().rstrip("=")

    def read(self, request: Message, token: str) -> PagePosition:
        """Raises Failure BAD_PAGE_TOKEN."""
        try:
            # altchars and validate, because urlsafe_b64decode skips unknown characters
            padded = token.encode("ascii") + b"=" * (-len(token) % 4)
            raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error):
            raise _bad("it is no token") from None
        if base64.urlsafe_b64encode(raw).decode().rstrip("=") != token:
            raise _bad("it is no token")  # the last character has bits that are not part of any byte
        body = raw[1 + MAC_BYTES :]
        if raw[:1] != FORMAT or not hmac.compare_digest(raw[1 : 1 + MAC_BYTES], self._mac(body)):
            raise _bad("it was not made by this installation")
        digest, versions, after = json.loads(body)
        if digest != _digest(request):
            raise _bad("it belongs to another request")
        return PagePosition(tuple(Version(epoch, batch) for epoch, batch in versions), bytes.fromhex(after))

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self.key, FORMAT + body, "sha256")[:MAC_BYTES]


def key_of(path: Path) -> bytes:
    """Reads the key from a file, or creates it. Raises ConfigError for a key that is too short."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
            new.write(os.urandom(KEY_BYTES))
    except FileExistsError:
        pass
    key = path.read_bytes()
    if len(key) < KEY_BYTES:
        raise ConfigError(
            f"{path}: expected a key of at least {KEY_BYTES} bytes, found {len(key)}.",
            f"write {KEY_BYTES} random bytes to it.",
        )
    return key


def _digest(request: Message) -> str:
    """A digest of everything that must stay the same from page to page."""
    same = type(request)()
    same.CopyFrom(request)
    for field in ("page_token", "page_size", "at", "from", "to"):
        if field in same.DESCRIPTOR.fields_by_name:
            same.ClearField(field)
    named = same.DESCRIPTOR.full_name.encode() + b"\0" + same.SerializeToString(deterministic=True)
    return hashlib.sha256(named).hexdigest()[:32]


def _bad(why: str) -> Failure:
    return Failure(
        "BAD_PAGE_TOKEN",
        f"page_token: expected next_page_token of the page before, for the same request, but {why}.",
        field="page_token",
    )
