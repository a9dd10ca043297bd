"""HTTP calls, all of them by one library (aiohttp).

`message` has calls, replies and errors. `sender` sends over a bounded pool of connections (`pool`), in an event loop.
`once` sends over a connection of its own, for callers without an event loop. `urls` checks a URL from the settings.
`docs/adr/0021-http-client.md` says why.
"""

from moneystate.http.message import HttpCall, HttpFailure, HttpReply, HttpTimeout, HttpUnsendable
from moneystate.http.once import SendOnce, send_once
from moneystate.http.sender import HttpSender
from moneystate.http.urls import ServiceUrl

__all__ = [
    "HttpCall",
    "HttpFailure",
    "HttpReply",
    "HttpSender",
    "HttpTimeout",
    "HttpUnsendable",
    "SendOnce",
    "ServiceUrl",
    "send_once",
]
