"""The examples of clients work, in both languages; the stubs of the contract are those of its services."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.query.serving import Server

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> str:
    assert shutil.which("go"), "expected Go to build examples/go. Do: make env, or install Go 1.26 or later."
    built = str(tmp_path_factory.mktemp("go") / "query-client")
    subprocess.run(["go", "build", "-o", built, "."], cwd=ROOT / "examples" / "go", check=True)
    return built


def clients(go_client: str) -> list[list[str]]:
    return [[go_client], [sys.executable, str(ROOT / "examples" / "python" / "get_user.py")]]


def test_both_clients_say_the_same_of_a_user(server: Server, go_client: str) -> None:
    for command in clients(go_client):
        done = ask(command, server.address, "user-000")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "version e-story/2: user-000",
            "country ES, birth year unknown",
            "waiting: m-user-000, 100.0000 EUR, for session s-user-000",
        ]


def test_both_clients_name_the_reason_of_a_failure(server: Server, go_client: str) -> None:
    for command in clients(go_client):
        done = ask(command, server.address, "nobody")
        assert done.returncode == 1
        assert done.stderr.startswith("NOT_FOUND: ")


def ask(command: list[str], address: str, user: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "proto")])
    given = [*command, "--address", address, user]
    return subprocess.run(given, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
