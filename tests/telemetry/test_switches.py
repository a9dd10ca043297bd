"""Lineage and traces are off by default, need an extra, and say in one line what is missing."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from moneystate.cli.main import main

JOB = ("run", "examples.orders.orders:service", "--bootstrap-servers", "127.0.0.1:1", "--checkpoint", "c")
SERVE = ("serve", "--service", "enrichment", "--bootstrap-servers", "127.0.0.1:1", "--data", "d")
ASK = ("ask", "orders", "schema", "--address", "127.0.0.1:1")
LIBRARIES = ("openlineage", "opentelemetry")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a configuration in this folder nor one of this user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the libraries were not installed."""
    ours = [name for name in sys.modules if name.startswith("moneystate.telemetry.")]
    for name in [*ours, *(n for n in sys.modules if n.split(".")[0] in LIBRARIES)]:
        monkeypatch.delitem(sys.modules, name)
    for name in LIBRARIES:
        monkeypatch.setitem(sys.modules, name, None)
    package = importlib.import_module("moneystate.telemetry")
    for name in ours:
        monkeypatch.delattr(package, name.rpartition(".")[2], raising=False)


def refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["moneystate", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ((*JOB, "--openlineage"), "moneystate[openlineage]"),
        ((*JOB, "--traces"), "moneystate[otel]"),
        ((*SERVE, "--traces"), "moneystate[otel]"),
        ((*ASK, "--traces"), "moneystate[otel]"),
    ],
)
@pytest.mark.usefixtures("without_extras")
def test_an_extra_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], extra: str
) -> None:
    assert f"which is not installed. Do: pip install '{extra}'" in refused(monkeypatch, capfd, *arguments).replace(
        "which are", "which is"
    )


def test_events_need_a_place_to_go_to(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert "--openlineage: expected where to send events" in refused(monkeypatch, capfd, *JOB, "--openlineage")


def test_a_wrong_configuration_is_refused_without_repeating_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "openlineage.yml").write_text("transport: {type: nothing-like-it, password: s3cret}")
    message = refused(monkeypatch, capfd, *JOB, "--openlineage")
    assert "expected a configuration of OpenLineage's client" in message
    assert "s3cret" not in message


@pytest.mark.parametrize("parent", ["a", "a/b/c", "a/01a20793-68bb-77c6-8891-9de8acb0d630"])
def test_a_parent_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], parent: str
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", parent)
    assert "OPENLINEAGE_PARENT_ID: expected NAMESPACE/NAME/RUN_ID" in refused(monkeypatch, capfd, *JOB, "--openlineage")


def test_only_http_carries_traces(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    for command in (JOB, SERVE):
        message = refused(monkeypatch, capfd, *command, "--traces")
        assert "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf, found grpc" in message


def test_without_the_flags_neither_library_is_loaded() -> None:
    """Neither the command line loads them, nor a job and a worker of the query server."""
    modules = "moneystate.cli.main, moneystate.cli.tree, moneystate.serving.worker, moneystate.spark.job"
    all_commands = "list(moneystate.cli.tree.Commands().values())"
    check = f"import sys, {modules}; {all_commands}; print([n for n in {LIBRARIES} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
