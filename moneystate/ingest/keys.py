"""Idempotency keys: what was answered for each, and the records that remember it (docs/adr/0028-idempotency-keys.md).

A caller's key is kept as a digest, which also decides its key partition. Keys of different callers never meet.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from hashlib import sha256
from typing import Final, NamedTuple

from moneystate.errors import JobError
from moneystate.ingest.answers import Answer
from moneystate.ingest.refusals import Refused

DIGEST_BYTES: Final = 16
MAX_KEY_BYTES: Final = 255
ENTRY_BYTES: Final = 400  # what a key costs in memory, beside its answer


class RequestKey(NamedTuple):
    """A request that may be sent again."""

    digest: bytes  # of caller and key
    body: bytes  # digest of topic and body


class Kept(NamedTuple):
    """The answer that a key has got."""

    body: bytes  # digest of the request's topic and body
    answer: Answer
    time_ms: int  # of its record


def request_key(caller: str, key: str, topic: str, way: str, body: bytes) -> RequestKey:
    """`way`: what else decides how the body is read. Raises Refused for a key that is empty or too long."""
    text = key.encode("latin-1", "replace")
    if not text or len(text) > MAX_KEY_BYTES:
        raise Refused("BAD_IDEMPOTENCY_KEY", f"expected an Idempotency-Key of 1 to {MAX_KEY_BYTES} characters.")
    return RequestKey(_digest(caller.encode(), text), _digest(topic.encode(), way.encode(), body))


def _digest(*parts: bytes) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()[:DIGEST_BYTES]


def partition_of(digest: bytes, partitions: int) -> int:
    return int.from_bytes(digest[:8], "big") % partitions


def encode(key: RequestKey, answer: Answer) -> bytes:
    """The value of a key's record, whose Kafka key is the digest."""
    return json.dumps(
        {"body": key.body.hex(), "status": answer.status, "answer": answer.body.decode()}, separators=(",", ":")
    ).encode()


def decode(topic: str, value: bytes, time_ms: int) -> Kept:
    """Raises JobError for a record of another program."""
    try:
        members = json.loads(value)
        answer = Answer(int(members["status"]), members["answer"].encode())
        return Kept(bytes.fromhex(members["body"]), answer, time_ms)
    except (ValueError, LookupError, TypeError, AttributeError) as e:
        raise JobError(
            f"{topic}: expected the records of idempotency keys, found another one ({type(e).__name__}).",
            "give this command a --topic-prefix of its own, or remove the topic.",
        ) from None


class Keys:
    """The keys of one key partition that are still kept, oldest first."""

    def __init__(self, keep_ms: int) -> None:
        self.keep_ms = keep_ms
        self.bytes = 0  # about what they take in memory
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: RequestKey, now_ms: int) -> Answer | None:
        """The answer that the request has got; None: it is new. Raises Refused if the key was used for another body."""
        self.expire(now_ms)
        entry = self._kept.get(key.digest)
        if entry is None or self._is_over(entry, now_ms):
            return None
        if entry.body != key.body:
            raise Refused("KEY_USED", "expected another Idempotency-Key, because this one was used for another body.")
        return entry.answer

    def add(self, digest: bytes, entry: Kept) -> None:
        self._drop(digest)
        self._kept[digest] = entry
        self.bytes += ENTRY_BYTES + len(entry.answer.body)

    def expire(self, now_ms: int) -> None:
        """Forgets keys that no longer count."""
        while self._kept:
            digest, entry = next(iter(self._kept.items()))
            if not self._is_over(entry, now_ms):
                return
            self._drop(digest)

    def _is_over(self, entry: Kept, now_ms: int) -> bool:
        return entry.time_ms + self.keep_ms <= now_ms

    def _drop(self, digest: bytes) -> None:
        entry = self._kept.pop(digest, None)
        if entry is not None:
            self.bytes -= ENTRY_BYTES + len(entry.answer.body)
