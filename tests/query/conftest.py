"""One changelog and one server for most tests of this package; those that need another server start it over a folder of
its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moneystate.cli.main import main
from moneystate.devbroker import DevBroker
from moneystate.serving.client import Client
from tests.query.certificates import Pki
from tests.query.market_story import MarketJob
from tests.query.serving import Server, new_cluster

ROOT = Path(__file__).resolve().parents[2]


class Done(NamedTuple):
    code: int
    out: str
    err: str


Moneystate = Callable[..., Done]


@pytest.fixture(scope="session")
def go_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the example clients in Go, built as their page says."""
    folder = tmp_path_factory.mktemp("go")
    subprocess.run([sys.executable, ROOT / "examples" / "go" / "build.py", folder], check=True)
    return folder


@pytest.fixture
def moneystate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Moneystate:
    """The command line, without the start of a process."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["moneystate", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture(scope="package")
def server(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The enrichment, open on loopback, two workers, the whole story; nobody changes its state."""
    with Server(new_cluster(broker), tmp_path_factory.mktemp("replica"), "--workers", "2") as running:
        yield running.told()


@pytest.fixture(scope="package")
def market_server(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same for the market."""
    cluster = new_cluster(broker)
    folder = tmp_path_factory.mktemp("market-replica")
    with Server(cluster, folder, "--workers", "2", job=MarketJob(cluster)) as running:
        yield running.told()


@pytest.fixture
def asking(market_server: Server) -> Iterator[Client]:
    """A client of the market's server."""
    with market_server.client() as connected:
        yield connected


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as connected:
        yield connected


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))
