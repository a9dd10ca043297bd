"""A call over a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from moneystate.http.message import HttpCall, HttpReply
from moneystate.http.sender import HttpSender

SendOnce = Callable[[HttpCall, float], HttpReply]


def send_once(call: HttpCall, timeout_s: float) -> HttpReply:
    """Blocks until the reply. Nothing is left open after it, so the process may fork. The event loop is in a thread of
    its own, because the caller may be in one. Raises HttpFailure."""
    with ThreadPoolExecutor(1, "http") as thread:
        return thread.submit(asyncio.run, _sent(call, timeout_s)).result()


async def _sent(call: HttpCall, timeout_s: float) -> HttpReply:
    sender = HttpSender(1)
    try:
        return await sender.send(call, timeout_s)
    finally:
        await sender.close()
