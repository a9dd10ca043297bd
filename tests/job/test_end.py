"""How a live run ends: told to, or because something else did. What is on the terminal then is for people."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import pytest

from moneystate.job.checkpoint import Checkpoint
from moneystate.job.run_folder import RunFolder
from tests.job.harness import Finished, JobProcess, Setup, small_workload
from tests.log_lines import kinds, parsed
from tests.ports import free_port
from tests.waiting import until

FAILED = 5
AT_ONCE_S = 30.0  # far less than the trigger interval, far more than a busy machine takes to end the job
LEFT = ("blockmgr-", "spark-", "moneystate-entries-", "moneystate-runs-", "artifacts")
TRIGGER = ("--trigger-interval", "300s")


def done_with_batch_0(job: JobProcess, setup: Setup) -> None:
    job.wait_for(lambda: Checkpoint(str(setup.checkpoint)).last_committed() == 0, "batch 0")


def jvm(job: JobProcess) -> psutil.Process:
    processes = [p for p in psutil.Process(job.process.pid).children(recursive=True) if p.name() == "java"]
    assert len(processes) == 1
    return processes[0]


@pytest.mark.long
def test_it_ends_while_it_waits_for_the_next_trigger(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes its lineage and its traces: it says so once, and does not wait."""
    away = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("OPENLINEAGE_URL", away)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", away)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    setup.create_inputs()
    setup.send(small_workload("--events", "300"))
    with setup.start(*TRIGGER, "--quiet", "--json", "--openlineage", "--traces") as job:
        done_with_batch_0(job, setup)
        told = time.monotonic()
        done = job.stop()
        assert time.monotonic() - told < AT_ONCE_S
    assert done.code == 0, done.err
    warnings = [line["event"] for line in parsed(done.err) if line["level"] == "warning"]
    assert sorted(text.split(" do not arrive")[0] for text in warnings) == [
        "OpenLineage's events",
        "OpenTelemetry's spans",
    ]
    assert len(done.err.splitlines()) == 2
    assert done.totals["batch"] == 0


@pytest.mark.parametrize("stop", [JobProcess.stop_group, JobProcess.stop_all])
def test_a_signal_for_all_its_processes_ends_it_after_its_batch(
    setup: Setup, stop: Callable[[JobProcess], Finished]
) -> None:
    setup.create_inputs()
    setup.send(small_workload("--events", "3000"))
    with setup.start("--quiet", "--json", "--max-records-per-batch", "50") as job:
        done_with_batch_0(job, setup)
        done = stop(job)  # batches follow each other, so it is within one
        until(lambda: not job.tree(), lambda: f"{job.tree()} live on", AT_ONCE_S)
    assert (done.code, done.err) == (0, "")
    planned, committed = (
        max(int(path.name) for path in (setup.checkpoint / folder).iterdir() if path.name.isdigit())
        for folder in ("offsets", "commits")
    )
    assert planned == committed == done.totals["batch"]


def test_a_jvm_that_is_killed_is_one_line_and_code_5(setup: Setup) -> None:
    setup.create_inputs()
    with setup.start("--quiet") as job:
        job.wait_for((setup.checkpoint / "commits").exists, "the query")
        jvm(job).kill()
        done = job.finish()
    assert done.code == FAILED
    assert kinds(done.err) == ["error:"]
    assert str(setup.checkpoint / "moneystate" / "driver.log") in done.err


@pytest.mark.long
def test_what_a_killed_run_leaves_is_removed_by_the_next(setup: Setup) -> None:
    setup.create_inputs()
    setup.send(small_workload("--events", "700", "--flush-marker"))
    local = setup.folder / "local dir"
    spark = ("--spark-config", f"spark.local.dir={local}", "--until-caught-up", "--max-records-per-batch", "300")
    paused = setup.folder / "paused"
    with setup.start(*spark, pause_at="produced@1") as killed:
        killed.wait_for(paused.exists, "batch 1")
        (left,) = local.glob("moneystate-*/run-*")
        names = [path.name for path in left.rglob("*")]
        assert all(any(name.startswith(kind) for name in names) for kind in LEFT), names
        killed.kill()
        assert sorted(path.name for path in killed.folder.iterdir()) == ["err", "out"]  # which has its TMPDIR
    assert left.exists()
    live = RunFolder([local], "another job").path
    with setup.start(*spark) as again:
        done = again.finish()
    assert done.code == 0, done.err
    assert [path for path in local.iterdir() if path != live.parent] == []
    assert live.exists()
