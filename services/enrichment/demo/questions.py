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
from moneystate.query.v1 import query_pb2
from moneystate.serving.client import Client, Target
from services.enrichment.demo.job import AGAIN

CAUGHT_UP_S = 30.0
POLL_S = 0.1
CALL_S = 5.0
COMMAND_S = 30.0
BUSY = "run the demo again on a machine with less to do."

WAITED = "99afd170-babe-4e97-9044-e3d0a2385871"  # money that waited for its session (step 9)
LOOKED_UP = "99afd170-babe-4e97-9044-e3d0a2385860"  # money whose session is looked up (steps 11 and 12)
USER = "9f872873-eae5-466e-8e04-5552564481d1"
QUESTIONS = (
    ("explain", WAITED),
    ("explain", LOOKED_UP),
    ("get", USER),
    ("users", "--country", "PO"),
    ("pending",),
    ("status",),
)


@dataclass(frozen=True)
class Answer:
    """A command as a user types it, and its output."""

    command: str
    printed: str


def ask(address: str, environment: Mapping[str, str]) -> list[Answer]:
    """Raises JobError if the server does not have the scenario's final state in time, or a command fails."""
    _await(address)
    return [_answer(question, address, environment) for question in QUESTIONS]


def _await(address: str) -> None:
    """Waits until the replica has read the scenario's last money."""
    deadline = time.monotonic() + CAUGHT_UP_S
    with Client(Target(address), CALL_S) as client:
        while not _knows(client):
            if time.monotonic() > deadline:
                raise JobError(f"{address}: expected the replica to have caught up within {CAUGHT_UP_S:.0f} s.", BUSY)
            time.sleep(POLL_S)


def _knows(client: Client) -> bool:
    try:
        answer = client.call("Query.Explain", query_pb2.ExplainRequest(money_id=LOOKED_UP))
    except grpc.RpcError:
        return False
    return bool(answer.money.where == query_pb2.MONEY_WHERE_PUT_OUT)


def _answer(question: tuple[str, ...], address: str, environment: Mapping[str, str]) -> Answer:
    command = [sys.executable, "-m", "moneystate.cli.main", "state", *question, "--address", address]
    asked = " ".join(("moneystate state", *question))
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
