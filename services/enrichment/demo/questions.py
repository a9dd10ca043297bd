"""The queries that the demo runs at its end, with the commands that a user would type."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

import grpc

from moneystate.errors import JobError
from moneystate.log import text_of
from moneystate.records.iso_time import to_ms
from moneystate.serving.client import Client, Target
from moneystate.state.v1 import state_pb2
from services.enrichment.demo.job import AGAIN, BOUND_S, SERVICE

CAUGHT_UP_S = 30.0
POLL_S = 0.1
CALL_S = 5.0
COMMAND_S = 30.0
BUSY = "run the demo again on a machine with less to do."

USER = "9f872873-eae5-466e-8e04-5552564481d1"
QUESTIONS = (
    ("get", USER),
    ("entries", "sessions", USER),
    ("explain", "user", USER),
    ("oldest_wait",),
    ("list", "user"),
    ("status",),
)


@dataclass(frozen=True)
class Answer:
    """A command as a user types it, and its output."""

    command: str
    printed: str


def ask(address: str, last_time: str, environment: Mapping[str, str]) -> list[Answer]:
    """`last_time`: event time of the last heartbeats, ISO-8601. Raises JobError if the server does not have the
    scenario's final state in time, or a command fails."""
    _await(address, to_ms(last_time) - BOUND_S * 1000)
    return [_answer(question, address, environment) for question in QUESTIONS]


def _await(address: str, watermark_ms: int) -> None:
    """Waits until the replica has the version of the last heartbeats, and all money is put out."""
    deadline = time.monotonic() + CAUGHT_UP_S
    with Client(Target(address), CALL_S) as client:
        while not _has(client, watermark_ms):
            if time.monotonic() > deadline:
                raise JobError(f"{address}: expected the replica to have caught up within {CAUGHT_UP_S:.0f} s.", BUSY)
            time.sleep(POLL_S)


def _has(client: Client, watermark_ms: int) -> bool:
    try:
        answer = client.call("State.Call", state_pb2.CallRequest(query="oldest_wait"))
    except grpc.RpcError:
        return False
    return bool(answer.header.watermark_ms >= watermark_ms and answer.result.json == "null")


def _answer(question: tuple[str, ...], address: str, environment: Mapping[str, str]) -> Answer:
    command = [sys.executable, "-m", "moneystate.cli.main", "ask", SERVICE, *question, "--address", address]
    asked = " ".join(("moneystate ask", SERVICE, *question))
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
            env=dict(environment),
        )
    except subprocess.TimeoutExpired:
        raise JobError(f"{asked}: expected an answer within {COMMAND_S:.0f} s, found none.", BUSY) from None
    if done.returncode:
        raise JobError(f"{asked}: expected an answer, found {text_of(done.stderr.strip())}", AGAIN)
    return Answer(asked, done.stdout)
