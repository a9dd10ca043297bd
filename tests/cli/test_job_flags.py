"""The flags of `moneystate run`, also as variables and in the TOML file."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from moneystate.cli import main, running
from moneystate.cli import run as run_command
from moneystate.cli.display import Display
from moneystate.cli.job_kinds import Kind
from moneystate.devbroker import DevBroker
from moneystate.job.batch_writing import Report
from moneystate.job.run_options import RunOptions
from moneystate.ports.service import JobSpec
from tests.log_lines import kinds, shown

NEEDED = ("--bootstrap-servers", "127.0.0.1:1", "--checkpoint", "no/such/folder")


class Ran(Exception):
    """The command got as far as to run a job."""


class Recorder:
    """Stands in for the job and remembers what it was to do."""

    spec: JobSpec
    options: RunOptions

    def __call__(self, spec: JobSpec, options: RunOptions, *_callbacks: object, **_more: object) -> Any:
        self.spec, self.options = spec, options
        raise Ran


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(running, "kind_of", lambda _: Kind(recorder, recorder))
    monkeypatch.setattr(run_command, "begin_run", lambda *_: None)
    return recorder


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code; raises Ran where the job would have run."""
    monkeypatch.setattr("sys.argv", ["moneystate", *arguments])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert isinstance(end.value.code, int)
    return end.value.code


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", ["moneystate", *arguments])
    with pytest.raises(Ran):
        main.main()


@pytest.mark.parametrize(
    "wrong",
    [
        ("--bound", "20"),
        ("--bound", "-1s"),
        ("--bound", ""),
        ("--session-ttl", "1 day"),
        ("--session-ttl", "0s"),
        ("--dedup-ttl", "1.5h"),
        ("--dedup-ttl", "0ms"),
        ("--session-wait", "soon"),
        ("--max-future", "10"),
        ("--idle-timeout", "0s"),
        ("--trigger-interval", "x"),
        ("--drain",),
        ("--drain-until", "2026-01-31T00:00:00Z", "--until-caught-up"),
        ("--drain-until", "2026-01-31", "--drain", "--until-caught-up"),
        ("--drain-until", "+10000-01-31T00:00:00Z", "--drain", "--until-caught-up"),
        ("--key-groups", "0"),
        ("--partitions", "0"),
        ("--partitions", "65"),
        ("--max-records-per-batch", "0"),
        ("--format", "wallet-events"),
        ("--format", "wallet-events=xml"),
        ("--format", "other=json"),
        ("--format", "wallet-events=confluent"),
        ("--kafka-config", "nothing"),
        ("--kafka-config", "sasl.password=hunter2"),
        ("--kafka-config-file", "no/such/file"),
        ("--spark-config", "=x"),
        ("--checkpoint", ""),
        ("--bootstrap-servers", " "),
        ("--starting-offsets", "latest"),
        ("--starting-offsets", "2026-01-31T00:00:00"),
    ],
    ids=" ".join,
)
def test_a_flag_that_cannot_be_is_one_line_and_code_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], job: Recorder, wrong: tuple[str, ...]
) -> None:
    assert run(monkeypatch, "run", "enrichment", *NEEDED, *wrong) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert kinds(err) == ["error:"]
    assert wrong[0] in err


@pytest.mark.parametrize(
    "content",
    [
        "not toml",
        "[run]\nbond = '20s'",
        "[other]\nbound = '20s'",
        "bound = '20s'",
        "[run]\nbound = 'x'",
    ],
)
def test_a_file_that_cannot_be_is_one_line_and_code_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], job: Recorder, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(content)
    assert run(monkeypatch, "run", "enrichment", "--config", str(file), *NEEDED) == 2
    assert kinds(capfd.readouterr().err) == ["error:"]


def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "run", "enrichment", "--config", "no/such/file.toml", *NEEDED) == 2
    assert shown(capfd.readouterr().err).startswith("error: ")


def test_a_flag_goes_before_its_variable_before_the_file_before_the_default(
    monkeypatch: pytest.MonkeyPatch, job: Recorder, tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        "[run]\nbootstrap-servers = 'of-the-file:1'\ncheckpoint = 'c'\nbound = '1s'\nmax_future = '1s'\n"
        "max-record-bytes = 2048\npartitions = 3\ncreate-topics = false\nuntil-caught-up = true\n"
        "[run.format]\nwallet-events = 'json'\nuser-events = 'json'\n"
        "[enrichment]\nsession-ttl = '1s'\nsession_wait = '1s'\n"
    )
    monkeypatch.setenv("MONEYSTATE_BOUND", "2s")
    monkeypatch.setenv("MONEYSTATE_MAX_FUTURE", "2s")
    ran(monkeypatch, "run", "enrichment", "--config", str(file), "--bound", "3s", "--session-wait", "3s")
    rules, options = job.spec.rules, job.options
    names = ("bound_ms", "max_future_ms", "max_record_bytes", "session_ttl_ms", "session_wait_ms", "dedup_ttl_ms")
    assert [rules[name] for name in names] == [3_000, 2_000, 2_048, 1_000, 3_000, 3_600_000]
    assert (options.bootstrap_servers, options.partitions, options.create_topics) == ("of-the-file:1", 3, False)
    assert (options.bounded, in_json(options)) == (True, {"wallet-events", "user-events"})


def in_json(options: RunOptions) -> set[str]:
    return {topic for topic, name in options.formats.items() if name == "json"}


def test_variables_of_repeated_flags_are_split_at_semicolons_and_lines(
    monkeypatch: pytest.MonkeyPatch, job: Recorder
) -> None:
    monkeypatch.setenv("MONEYSTATE_KAFKA_CONFIG", "client.id=a b; ssl.cipher.suites=x y\n")
    monkeypatch.setenv("MONEYSTATE_SPARK_CONFIG", "spark.driver.extraJavaOptions=-Da=1 -Db=2\nspark.x=y")
    monkeypatch.setenv("MONEYSTATE_FORMAT", "wallet-events=json;user-events=json")
    ran(monkeypatch, "run", "enrichment", *NEEDED)
    options = job.options
    assert options.kafka_config == {"client.id": "a b", "ssl.cipher.suites": "x y"}
    assert options.spark_config == {"spark.driver.extraJavaOptions": "-Da=1 -Db=2", "spark.x": "y"}
    assert in_json(options) == {"wallet-events", "user-events"}
    ran(monkeypatch, "run", "enrichment", *NEEDED, "--kafka-config", "client.id=a; b")
    assert job.options.kafka_config == {"client.id": "a; b"}


def test_a_malformed_setting_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], job: Recorder
) -> None:
    assert run(monkeypatch, "run", "enrichment", *NEEDED, "--kafka-config", "sasl.password:hunter2") == 2
    assert "hunter2" not in capfd.readouterr().err


def test_every_flag_may_stand_in_the_file(monkeypatch: pytest.MonkeyPatch, job: Recorder, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[run]\njson = true\nquiet = true\n")
    ran(monkeypatch, "run", "enrichment", "--config", str(file), *NEEDED)


def test_the_file_may_be_named_by_a_variable(monkeypatch: pytest.MonkeyPatch, job: Recorder, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[run]\nbound = '7s'\n")
    monkeypatch.setenv("MONEYSTATE_CONFIG", str(file))
    ran(monkeypatch, "run", "enrichment", *NEEDED)
    assert job.spec.bound_ms == 7_000


@pytest.mark.parametrize(
    "wrong",
    [
        ("run", "enrichment", *NEEDED, "--partitions", "many"),
        ("run", "enrichment", *NEEDED, "--no-such-flag"),
        ("run", "enrichment", *NEEDED, "--session-lookup", "http"),
        ("run", "enrichment", *NEEDED, "left over"),
        ("run", "enrichment", "--checkpoint"),
        ("run", "enrichment"),
        ("run",),
        ("nonsense",),
        ("kafka", "nonsense"),
    ],
    ids=" ".join,
)
def test_what_the_command_line_does_not_know_is_one_line_and_code_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], job: Recorder, wrong: tuple[str, ...]
) -> None:
    assert run(monkeypatch, *wrong) == 2
    assert kinds(capfd.readouterr().err) == ["error:"]


@pytest.mark.parametrize("group", [(), ("kafka",)])
def test_a_command_that_is_left_out_is_answered_with_the_help(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], group: tuple[str, ...]
) -> None:
    assert run(monkeypatch, *group) == 2
    assert capfd.readouterr().err.startswith("Usage: moneystate")


@pytest.mark.parametrize("content", ["[]", "{", '{"wallet-events": 3}', '{"wallet-events": {"x": 1}}', '{"other": {}}'])
def test_a_file_of_starting_offsets_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], job: Recorder, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(content)
    assert run(monkeypatch, "run", "enrichment", *NEEDED, "--starting-offsets", str(file)) == 2
    assert kinds(capfd.readouterr().err) == ["error:"]


@pytest.mark.parametrize("wanted", ["earliest", "2026-01-31T00:00:00Z", "2026-01-31T00:00:00+02:00"])
def test_starting_offsets_that_can_be(monkeypatch: pytest.MonkeyPatch, job: Recorder, wanted: str) -> None:
    ran(monkeypatch, "run", "enrichment", *NEEDED, "--starting-offsets", wanted)
    assert job.options.starting_offsets == wanted


def test_without_any_batch_the_counts_are_not_known() -> None:
    totals = Display(True, "money-enrichment").totals()
    assert (totals["records"], totals["outputs"]) == (0, 0)
    assert [value for name, value in totals.items() if name not in ("records", "outputs")] == [None] * (len(totals) - 2)


def test_input_topics_that_are_created_are_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], broker: DevBroker, tmp_path: Path
) -> None:
    """Also without progress. The run ends before Spark, as there is nothing to finish."""
    monkeypatch.setattr("moneystate.spark.job._run_spark", lambda jobs: [Report() for _ in jobs])
    checkpoint = str(tmp_path / "checkpoint")
    prefix = f"new{uuid.uuid4().hex[:8]}-"
    where = ("--bootstrap-servers", broker.bootstrap_servers, "--checkpoint", checkpoint, "--topic-prefix", prefix)
    assert run(monkeypatch, "run", "enrichment", *where, "--quiet", "--session-lookup", "topic") == 0
    warning = shown(capfd.readouterr().err)
    assert re.fullmatch(r"warning: (\S+), (\S+), (\S+): .*\n", warning)
    for name in ("wallet-events", "user-events", "user-session-events"):
        assert prefix + name in warning
    assert "session-lookup-results" not in warning  # it may well be empty
    assert "--topic-prefix" in warning
    assert run(monkeypatch, "run", "enrichment", *where, "--quiet", "--session-lookup", "topic") == 0
    assert "warning" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ("--replication-factor", "-1"),
        ("--min-insync-replicas", "-1"),
        ("--min-insync-replicas", "3", "--replication-factor", "2"),
    ],
    ids=" ".join,
)
def test_replication_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], job: Recorder, wrong: tuple[str, ...]
) -> None:
    assert run(monkeypatch, "run", "enrichment", *NEEDED, *wrong) == 2
    assert wrong[0] in capfd.readouterr().err


def test_help_shows_each_flags_default_and_variable(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "run", "--help") == 0
    text = " ".join(capfd.readouterr().out.split())
    for flag, default in (
        ("bound", "20s"),
        ("max-future", "10m"),
        ("idle-timeout", "30s"),
        ("lookup-deadline", "10m"),
    ):
        variable = "MONEYSTATE_" + flag.upper().replace("-", "_")
        assert re.search(rf"--{flag} .*?\[env var: {variable}; default: {'-? ?'.join(default)}\]", text), flag


def test_a_run_from_the_shell_ends_with_the_same_code_and_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "moneystate.cli.main", "run", "enrichment", *NEEDED, "--bound", "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert shown(done.stderr).startswith("error: --bound x: ")
