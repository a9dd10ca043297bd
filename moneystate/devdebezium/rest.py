"""Calls of a worker's REST interface."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from moneystate.devbroker.server_process import ADDRESS
from moneystate.errors import SetupError
from moneystate.http import HttpCall, HttpFailure, HttpReply, send_once

# Connect answers after 90 s that a connector does not stop.
TIMEOUT_S: Final = 100.0
NOT_FOUND: Final = 404
RUNNING: Final = "RUNNING"
PAUSED: Final = "PAUSED"
FAILED: Final = "FAILED"
MEND: Final = "fix the problem that the message names."


class Rest:
    """The worker that listens on a port."""

    def __init__(self, port: int) -> None:
        self._root = f"http://{ADDRESS}:{port}/connectors"

    def answers(self) -> bool:
        try:
            return send_once(HttpCall(self._root), TIMEOUT_S).is_success
        except HttpFailure:
            return False

    def tell(self, method: str, path: str, body: Mapping[str, str] | None = None) -> None:
        """Raises SetupError with what Connect does not like."""
        reply = self._send(method, path, body)
        if not reply.is_success:
            raise SetupError(f"Kafka Connect: expected it to take {method} {path}, but: {_message(reply)}", MEND)

    def states(self, name: str) -> list[str]:
        """The states of a connector and of its tasks; empty: it is not there yet. Raises SetupError if one failed."""
        reply = self._send("GET", f"{name}/status")
        if reply.status == NOT_FOUND:
            return []
        status = json.loads(reply.body)
        parts = [status["connector"], *status["tasks"]]
        for part in parts:
            if part["state"] == FAILED:
                raise SetupError(f"connector {name}: expected it to run, but: {_causes(part.get('trace', ''))}", MEND)
        return [part["state"] for part in parts]

    def _send(self, method: str, path: str, body: Mapping[str, str] | None = None) -> HttpReply:
        headers = {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            return send_once(HttpCall(f"{self._root}/{path}", method, headers, data), TIMEOUT_S)
        except HttpFailure as error:
            problem = f"Kafka Connect: expected an answer to {method} {path}, but {error.reason}."
            raise SetupError(problem, "read its log.") from None


def _causes(trace: str) -> str:
    """The exceptions of a stack trace, on one line."""
    return " ".join(line.strip() for line in trace.splitlines() if line and not line.startswith("\t"))


def _message(reply: HttpReply) -> str:
    try:
        content: Any = json.loads(reply.body)
        return " ".join(str(content["message"]).split())
    except (ValueError, KeyError, TypeError):
        return f"status {reply.status}"
