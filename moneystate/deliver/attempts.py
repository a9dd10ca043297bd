"""What is sent in an attempt, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout_ms: int
    secrets: Sequence[str] = ()  # texts that an answer must not show


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` None: there was none, `problem` says why. `text`: how the body begins, without control characters and
    secrets."""

    status: int | None
    took_ms: int
    retry_after: str | None = None
    text: str = ""
    problem: str = ""
