"""Calls, replies, and what can go wrong.

    HttpFailure
        HttpTimeout
        HttpUnsendable

Their reasons go into logs, so they have no value of a call or a reply: neither path nor header nor body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_REPLY_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HttpCall:
    url: str  # quoted, without user and password: it is sent as it is
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    max_reply_bytes: int = MAX_REPLY_BYTES  # of the body


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A redirect is a reply like any other: nobody follows it."""

    status: int
    headers: Mapping[str, str]  # upper and lower case are the same
    body: bytes
    is_cut: bool = False  # the body is longer; this is its beginning

    @property
    def is_success(self) -> bool:
        return 200 <= self.status <= 299

    @property
    def is_server_error(self) -> bool:
        return 500 <= self.status <= 599


class HttpFailure(Exception):
    """There is no reply. The service may have got the call, or not."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HttpTimeout(HttpFailure):
    """The call, with its wait for a connection and its body, was not over in time."""


class HttpUnsendable(HttpFailure):
    """The call's URL cannot be sent to anyone."""
