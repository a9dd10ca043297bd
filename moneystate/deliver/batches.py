"""Where the messages of a subscription are cut into batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moneystate.deliver.envelopes import Format, body_bytes


@dataclass(frozen=True, slots=True)
class Limits:
    max_messages: int = 1_000
    max_bytes: int = 1_000_000  # of the body
    max_wait_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that waits for its batch."""

    bytes: int  # of its envelope
    since_ms: int
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """The first `members` messages make a batch once `due_ms` has come. A full one is due at once."""

    members: int
    due_ms: int


def cut(waiting: Sequence[Waiting], limits: Limits, format: Format, by_tenant: bool = False) -> Cut | None:
    """The next batch of messages that wait in this order. None: none waits. With `by_tenant` it holds those of the
    first message's tenant, and ends before another one's. A message that is too large is a batch of its own."""
    if not waiting:
        return None
    first, size, members, is_full = waiting[0], 0, 0, False
    for message in waiting:
        if by_tenant and message.tenant != first.tenant:
            is_full = True  # the order of the subscription allows no more
            break
        if members and body_bytes(size + message.bytes, members + 1, format) > limits.max_bytes:
            is_full = True
            break
        size += message.bytes
        members += 1
        if members >= limits.max_messages:
            is_full = True
            break
    is_full = is_full or body_bytes(size, members, format) >= limits.max_bytes
    return Cut(members, first.since_ms if is_full else first.since_ms + limits.max_wait_ms)


def halves(members: int) -> tuple[int, int] | None:
    """Returns how a batch is cut in two that was too large for its receiver. None: a single message."""
    return None if members < 2 else (members - members // 2, members // 2)
