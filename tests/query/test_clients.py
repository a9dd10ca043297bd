"""The examples of clients work, in both languages; the stubs of the contract are those of its services."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.query.serving import Server

ROOT = Path(__file__).resolve().parents[2]


def clients(go_clients: Path) -> list[list[str]]:
    return [[str(go_clients / "query-client")], [sys.executable, str(ROOT / "examples" / "python" / "get_user.py")]]


def test_both_clients_say_the_same_of_a_user(server: Server, go_clients: Path) -> None:
    for command in clients(go_clients):
        done = ask(command, server.address, "user-000")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "version e-story/2: user-000",
            "country ES, birth year unknown",
            "waiting: m-user-000, 100.0000 EUR, for session s-user-000",
        ]


def test_both_clients_name_the_reason_of_a_failure(server: Server, go_clients: Path) -> None:
    for command in clients(go_clients):
        done = ask(command, server.address, "nobody")
        assert done.returncode == 1
        assert done.stderr.startswith("NOT_FOUND: ")


def ask(command: list[str], address: str, user: str) -> subprocess.CompletedProcess[str]:
    return run_client([*command, "--address", address, user])


def run_client(given: list[str]) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(given, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
