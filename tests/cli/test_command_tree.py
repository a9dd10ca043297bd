"""What holds for the whole command line: every option is a flag, a variable and a key of the file, means one thing, and
its help is whole."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
from typer.core import TyperGroup

from moneystate.cli import main
from moneystate.cli.option import Panel
from moneystate.cli.settings_file import NO_OPTIONS, options_of
from moneystate.cli.variables import OF_THE_PROGRAM
from tests.log_lines import shown

ROOT: Any = typer.main.get_command(main.app)
WIDTH = 80
SCOPES = {
    "kafka": "KAFKA",
    "fake-session-service": "FAKE",
    "skew": "SKEW",
    "table": "TABLE",
    "rollups": "ROLLUPS",
    "delivery": "DELIVERY",
}
OF_THEIR_OWN = ("table", "rollups", "delivery")  # commands whose scoped options may mean something else elsewhere


class Node(NamedTuple):
    words: list[str]
    command: Any

    @property
    def name(self) -> str:
        return " ".join(self.words)


class Given(NamedTuple):
    node: Node
    name: str
    parameter: Any


def nodes(command: Any = ROOT, words: tuple[str, ...] = ()) -> Iterator[Node]:
    yield Node(list(words), command)
    if isinstance(command, TyperGroup):
        for name, one in command.commands.items():
            yield from nodes(one, (*words, name))


TREE = list(nodes())
COMMANDS = [node for node in TREE if not isinstance(node.command, TyperGroup)]
OPTIONS = [
    Given(node, name, parameter) for node in COMMANDS for name, parameter in sorted(options_of(node.command).items())
]


def moneystate(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setattr("sys.argv", ["moneystate", *arguments])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert isinstance(end.value.code, int)
    return end.value.code


def test_there_are_commands_and_options() -> None:
    assert len(COMMANDS) > 30
    assert len(OPTIONS) > 300


def test_a_command_is_imported_when_it_is_looked_up_and_run_begins_without_pyspark() -> None:
    """A job's JVM starts first. PySpark's import takes as long as half of that start."""
    looked_up = "from moneystate.cli.tree import Commands; commands = Commands(); commands['run']"
    check = f"{looked_up}; import sys; print([n for n in ('pyspark', 'pyarrow', 'grpc') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_each_option_has_the_variable_of_its_name() -> None:
    for node, name, parameter in OPTIONS:
        plain = name.replace("-", "_").upper()
        scoped = f"MONEYSTATE_{SCOPES.get(node.words[0])}_{plain}"
        assert parameter.envvar in (f"MONEYSTATE_{plain}", scoped), f"{node.name} --{name}"


def test_a_variable_and_a_name_mean_one_thing() -> None:
    """The same help, type, metavar and panel wherever the name stands, but for options of `OF_THEIR_OWN` with a
    variable of their own; a variable is of one option."""
    by_variable = defaultdict(set)
    by_name = defaultdict(set)
    for _, name, p in OPTIONS:
        kind = p.type_descriptor.annotation
        limits = (p.type_descriptor.parameter_info.min, p.type_descriptor.parameter_info.max)
        by_variable[p.envvar].add(name)
        scopes = [SCOPES[command] for command in OF_THEIR_OWN]
        own = next((scope for scope in scopes if p.envvar.startswith(f"MONEYSTATE_{scope}_")), "")
        by_name[name, own].add((p.help, str(kind), p.metavar, p.rich_help_panel, limits, p.multiple, tuple(p.opts)))
    assert {variable: names for variable, names in by_variable.items() if len(names) > 1} == {}
    assert {name: seen for name, seen in by_name.items() if len(seen) > 1} == {}


def test_no_variable_is_one_of_the_program_or_an_old_one() -> None:
    variables = {given.parameter.envvar for given in OPTIONS}
    assert not variables & OF_THE_PROGRAM


def test_each_option_says_what_it_is_what_it_expects_and_where_it_belongs() -> None:
    panels = {panel.value for panel in Panel}
    for node, name, p in OPTIONS:
        where = f"{node.name} --{name}"
        assert (p.help or "")[-1:] == ".", where
        assert p.rich_help_panel in panels, where
        assert p.is_bool_flag or p.metavar, where
        assert bool(p.secondary_opts) is p.is_bool_flag, f"{where}: a switch can be turned off again"
    for node in COMMANDS:
        for p in node.command.params:
            assert p.param_type_name == "option" or (p.metavar and p.help), f"{node.name} {p.name}"


def test_summaries_are_whole_and_each_command_stands_in_its_groups_help(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for node in TREE:
        assert moneystate(monkeypatch, *node.words, "--help") == 0
        text = capfd.readouterr().out
        assert all(len(line) <= WIDTH for line in text.splitlines()), node.name
        if isinstance(node.command, TyperGroup):
            for name, command in node.command.commands.items():
                summary = command.help.split("\n\n")[0] if command.help else ""
                assert summary.strip(), f"{node.name} {name}"
                assert " ".join(summary.split()) in " ".join(text.split()), f"{node.name} {name}"


def test_a_summary_takes_one_line() -> None:
    for node in TREE:
        if isinstance(node.command, TyperGroup):
            room = WIDTH - 6 - max(map(len, node.command.commands))
            for name, command in node.command.commands.items():
                assert len(command.get_short_help_str(1000)) <= room, f"{node.name} {name}"


# a value that is not the default, by the kind of option
SAMPLES = [
    (["run"], "bound", "7s", "7s"),  # a duration
    (["run"], "checkpoint", "some/folder", "some/folder"),
    (["run"], "bootstrap-servers", "a:1,b:2", "a:1,b:2"),
    (["run"], "partitions", "3", 3),
    (["run"], "drain", "true", True),
    (["run"], "drain-until", "2026-01-31T00:00:00Z", "2026-01-31T00:00:00Z"),
    (["run"], "create-topics", "false", False),
    (["run"], "on-error", "dead-letter", "dead-letter"),
    (["run"], "approved", "plan.json", Path("plan.json")),
    (["run"], "kafka-config", "a=b c; d=e", ["a=b c", "d=e"]),
    (["plan"], "format", "t=json", ["t=json"]),
    (["bootstrap"], "from", "/archive;kafka", ["/archive", "kafka"]),
    (["lookup-worker"], "rate-limit", "2.5", 2.5),
    (["ask"], "at-version", "e/1", "e/1"),
    (["checkpoint", "fingerprint"], "at-version", "e/1", "e/1"),
    (["checkpoint", "compare"], "limit", "7", 7),
    (["schemas", "release"], "current", "events/A=1", ["events/A=1"]),
    (["kafka", "start"], "port", "9093", 9093),
    (["reconciliation", "status"], "svg", "x.svg", Path("x.svg")),
]


def parameter_of(words: list[str], name: str) -> Any:
    command = ROOT
    for word in words:
        command = command.commands[word]
    return command, options_of(command)[name]


def value_of(words: list[str], name: str, arguments: list[str]) -> Any:
    """What the command gets: all its words are parsed, and nothing is run."""
    command, parameter = parameter_of(words, name)
    context = ROOT.make_context("moneystate", [words[0]], resilient_parsing=True)
    group: Any = ROOT
    for word in words[:-1]:
        group = group.commands[word]
        context = group.make_context(word, ["x"], parent=context, resilient_parsing=True)
    required = [p for p in command.params if p.required and p is not parameter]
    for p in required:
        arguments = [*arguments, *([p.opts[0], "h:1"] if p.param_type_name == "option" else ["word"])]
    made = command.make_context(words[-1], list(arguments), parent=context)
    return made.params[parameter.name]


def same(got: Any, wanted: Any) -> bool:
    plain = list(got or []) if isinstance(wanted, list) else getattr(got, "value", got)
    return bool(plain == wanted)


@pytest.mark.parametrize(("words", "name", "text", "wanted"), SAMPLES, ids=lambda part: str(part))
def test_a_variable_a_key_and_a_flag_are_read(
    words: list[str], name: str, text: str, wanted: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, parameter = parameter_of(words, name)
    assert not same(parameter.default, wanted)
    monkeypatch.setenv(parameter.envvar, text)
    assert same(value_of(words, name, []), wanted)
    monkeypatch.delenv(parameter.envvar)
    file = tmp_path / "settings.toml"
    as_toml = str(wanted) if isinstance(wanted, Path) else wanted
    file.write_text(f"[{'.'.join(words)}]\n{name} = {json.dumps(as_toml)}\n")
    assert same(value_of(words, name, ["--config", str(file)]), wanted)


WRITTEN = {int: 2000, float: 1.0, bool: True, list[str]: []}
TEXTS = {"bound": "1s", "max-future": "1s", "idle-timeout": "1s", "trigger-interval": "1s", "broker-skew": "1s",
         "on-error": "fail", "timeout": "1s", "stalled-after": "1s", "openlineage-interval": "1s",
         "log-level": "info", "lookup-deadline": "1s"}  # fmt: skip


def test_every_option_is_a_key_of_the_file(tmp_path: Path) -> None:
    """Numbers, switches and lists are written as such."""
    file = tmp_path / "settings.toml"
    lines = []
    for node in COMMANDS:
        lines.append(f"[{'.'.join(node.words)}]")
        for name, p in options_of(node.command).items():
            lines.append(f"{name} = {json.dumps(WRITTEN.get(p.type_descriptor.annotation, TEXTS.get(name, 'h:1')))}")
    file.write_text("\n".join(lines))
    assert value_of(["run"], "partitions", ["--config", str(file)]) == 2000
    assert value_of(["ask"], "limit", ["--config", str(file)]) == 2000


def test_a_group_has_values_for_all_its_commands(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[checkpoint]\nservice = 'far'\nat-version = 'e/7'\n[checkpoint.compare]\nat-version = 'e/8'\n")
    config = ["--config", str(file)]
    assert value_of(["checkpoint", "compare"], "at-version", config) == "e/8"
    assert value_of(["checkpoint", "fingerprint"], "at-version", config) == "e/7"
    _, version = parameter_of(["checkpoint", "compare"], "at-version")
    assert version.envvar == "MONEYSTATE_AT_VERSION"
    assert value_of(["ask"], "at-version", config) == ""


def test_plan_takes_the_table_of_run_and_its_own_goes_before(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[run]\npartitions = 3\nbound = '1s'\n[plan]\nbound = '2s'\n")
    config = ["--config", str(file)]
    assert value_of(["plan"], "partitions", config) == 3
    assert value_of(["plan"], "bound", config) == "2s"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[checkpoint.show]\njsno = true\n", "[checkpoint.show] jsno: expected a flag of checkpoint show"),
        ("[checkpoint]\nbound = '1s'\n", "[checkpoint] bound: expected a flag of checkpoint"),
        ("[checkpoint]\nshow = 3\n", "expected a table [checkpoint.show]"),
        ("checkpoint = 3\n", "expected a table [checkpoint]"),
        ("[run]\nbound = ['1s', '2s']\n", "[run] bound: expected one value"),
        ("[checkpoint.get]\nout = 'x'\n", "[checkpoint] get: expected a flag of checkpoint"),
    ],
)
def test_a_file_that_is_wrong_anywhere_is_refused(
    content: str, told: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(content)
    assert moneystate(monkeypatch, "checkpoint", "show", "--config", str(file)) == 2
    error = capfd.readouterr().err
    assert error.startswith(f"error: --config {file}: ")
    assert told in error
    assert " Do: " in error


JOB = ("--checkpoint", "c", "--bootstrap-servers", "h:1")
SERVE = ("serve", "--service", "enrichment", "--data", "d", "--bootstrap-servers", "h:1")
BOOTSTRAP = ("bootstrap", "--service", "stock", "--from", "kafka", "--out", "o")
HOST = "host: expected HOST:PORT"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "s", *JOB, "--source-tasks", "0"), "--source-tasks 0: expected a whole number, at least 1, found"),
        ((*BOOTSTRAP, "--source-tasks", "0"), "--source-tasks 0: expected"),
        (("run", "s", "--checkpoint", "c", "--bootstrap-servers", "host"), f"--bootstrap-servers {HOST}"),
        (("run", "s", "--checkpoint", "c", "--bootstrap-servers", "a:1,host"), f"--bootstrap-servers {HOST}"),
        (("ask", "stock", "status", "--address", "host"), "--address host: expected HOST:PORT"),
        ((*SERVE, "--listen", "8484"), "--listen 8484: expected HOST:PORT"),
        (("run", "s", *JOB, "--topic-partitions", "0"), "--topic-partitions 0: expected a whole number, at least 1"),
        (("run", "enrichment", *JOB, "--idle-timeout", "30"), "--idle-timeout 30: expected a number and a unit"),
        (("run", "enrichment", *JOB, "--session-lookup", "http"), "--session-lookup: expected one of none, topic"),
        ((*SERVE, "--workers", "65"), "expected a whole number from 1 to 64"),
        (("kafka", "start", "--port", "70000"), "--port 70000: expected a whole number from 0 to 65535"),
        (("fake-session-service", "--error-rate", "2"), "--error-rate 2: expected a number from 0 to 1"),
        (("run", "s", "--checkpoint", "c"), "expected --bootstrap-servers HOST:PORT,..., found nothing. Do: give the "
         "flag, set MONEYSTATE_BOOTSTRAP_SERVERS, or put bootstrap-servers into the file of --config."),
        (("check",), "moneystate check: expected MODULE:SERVICE, found nothing."),
        (("ask", "stock", "schema", "--limit", "0"), "--limit 0: expected a whole number, at least 1"),
        (("checkpoint", "show", "--nonsense"), "Do: see moneystate checkpoint show --help."),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)  # fmt: skip
def test_what_cannot_be_is_refused_at_once(
    arguments: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert moneystate(monkeypatch, *arguments) == 2
    captured = capfd.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 1)
    assert shown(captured.err).startswith("error: ")
    assert told in shown(captured.err)
    assert " Do: " in captured.err


def test_a_variable_that_nothing_reads_is_a_warning_that_names_the_closest_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MONEYSTATE_TOPIC_PREFX", "x-")
    monkeypatch.setenv("MONEYSTATE_OWN_NOTE", "x")
    for known in (*OF_THE_PROGRAM, "MONEYSTATE_KAFKA_PORT", "MONEYSTATE_OUT", "MONEYSTATE_CONFIG"):
        monkeypatch.setenv(known, "1")
    assert moneystate(monkeypatch, "checkpoint", "show", "--help") == 0
    nothing, prefix = capfd.readouterr().err.splitlines()
    assert nothing.startswith("warning: MONEYSTATE_OWN_NOTE: expected the variable of a flag, found none")
    assert nothing.endswith("Do: see --help of the command, or unset it.")
    assert prefix.startswith("warning: MONEYSTATE_TOPIC_PREFX: ")
    assert prefix.endswith("Do: set MONEYSTATE_TOPIC_PREFIX, if that is meant.")


def test_each_command_takes_a_configuration_file() -> None:
    for node in COMMANDS:
        (config,) = [p for p in node.command.params if p.name == "config"]
        assert config.envvar == "MONEYSTATE_CONFIG", node.name
    assert "config" in NO_OPTIONS
