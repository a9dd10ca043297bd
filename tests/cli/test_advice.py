"""What errors tell people to do: commands exist as they are written, and take the flags that are named."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moneystate.cli import ask, main
from moneystate.cli.services import load
from moneystate.errors import CheckpointError, ConfigError, ServiceError, SetupError
from moneystate.job.checkpoint import Checkpoint
from moneystate.replica import files
from moneystate.runtime.plans import plan_of
from moneystate.schemas.services import check_released, release_service
from tests.cli.test_check import RIGHT, TIMED

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"\bmoneystate((?: (?:--)?[a-z][a-z-]*| [A-Z{][\w:}]*)+)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
PROSE = {"as", "makes", "shows", "with", "has", "names", "in", "may", "again", "and", "or", "to", "on", "for", "prints"}
OTHERS = {"--rules", "--properties"}


def texts(node: ast.AST) -> Iterator[str]:
    """The string literals below a node, with placeholders for what is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)  # type: ignore[misc]
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def advice() -> Iterator[tuple[str, str]]:
    """The texts of all errors that are raised, with their files."""
    for folder in ("moneystate", "services"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
                if isinstance(node, ast.Call) and (name.endswith("Error") or name in ("fail", "refuse_start")):
                    yield from ((f"{file.relative_to(ROOT)}:{node.lineno}", text) for text in texts(node))
                elif isinstance(node, ast.Assign) and any("ADVICE" in ast.unparse(t) for t in node.targets):
                    yield from ((f"{file.relative_to(ROOT)}:{node.lineno}", text) for text in texts(node.value))


@pytest.fixture(scope="module")
def checker() -> Any:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("check_docs_commands").Checker()
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def test_the_commands_of_all_advice_exist(checker: Any) -> None:
    commands = [
        (place, [word for word in match[1].split() if word not in PROSE], match[1].split())
        for place, text in advice()
        for match in COMMAND.finditer(text)
    ]
    told = []
    for place, _, words in commands:
        stop = next((n for n, word in enumerate(words) if word in PROSE), len(words))
        told += [f"{place}: {problem}" for problem in checker.moneystate_problems(words[:stop])]
    assert len(commands) > 15
    assert told == []


def test_the_flags_of_all_advice_exist(checker: Any) -> None:
    flags = [(place, flag) for place, text in advice() for flag in FLAG.findall(text)]
    assert len(flags) > 100
    assert [one for one in flags if not checker.known_flag(one[1]) and one[1] not in OTHERS] == []


def service_file(folder: Path, **changes: str) -> str:
    text = TIMED
    for name, value in {**RIGHT, **changes}.items():
        text = text.replace(name, value)
    (folder / "advised.py").write_text(text)
    return f"{folder}/advised.py:service"


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    sys.modules.pop("advised", None)
    plan_of.cache_clear()


def test_the_advice_to_release_names_the_service_as_it_can_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    with pytest.raises(ServiceError, match=r"run moneystate schemas release shop/advised\.py:service, and") as refused:
        check_released(load(service_file(tmp_path / "shop")))
    command = str(refused.value).partition("run moneystate ")[2].partition(",")[0]
    monkeypatch.setattr("sys.argv", ["moneystate", *command.split()])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 0
    check_released(load("shop/advised.py:service"))


def test_a_typing_error_in_a_flag_of_run_is_told_with_the_closest_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = service_file(tmp_path)
    release_service(load(service))
    for wrong, right in (("--checkpont", "--checkpoint"), ("--dais", "--days"), ("--xyzzy", "see --help")):
        words = ["run", service, "--bootstrap-servers", "127.0.0.1:1", "--checkpoint", "c", wrong, "3"]
        monkeypatch.setattr("sys.argv", ["moneystate", *words])
        with pytest.raises(SystemExit) as end:
            main.main()
        (line,) = capsys.readouterr().err.splitlines()
        assert end.value.code == 2
        assert f"{wrong}: expected a flag of the command or a rule of the service" in line
        assert right in line


def test_a_checkpoint_of_another_service_is_told_without_a_flag_that_does_not_exist(tmp_path: Path) -> None:
    class Made(Checkpoint):
        def settings(self) -> dict[str, Any]:
            return {"job": "orders"}

    with pytest.raises(CheckpointError, match="expected the service orders, which made the checkpoint, found stock"):
        Made(str(tmp_path)).check_settings({"job": "stock"})


def test_a_second_server_on_one_folder_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    data = str(tmp_path)
    files.check_unused(data)
    name = files.begin_generation(data)
    opens = f"db = files.open_primary({data!r}, {name!r})"
    holder = f"import sys; from moneystate.replica import files; {opens}; print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(SetupError, match="expected a folder that no other server uses") as refused:
            files.check_unused(data)
        other.stdin.close()
    assert "\n" not in str(refused.value)
    files.check_unused(data)


@pytest.mark.parametrize("word", ["-1", "-0.5", "-1e9", "-"])
def test_ask_takes_negative_numbers(word: str) -> None:
    ask._check_words(["orders", "total", word])


@pytest.mark.parametrize("word", ["--limt", "-x", "-1x"])
def test_ask_refuses_flags_that_it_does_not_have(word: str) -> None:
    with pytest.raises(ConfigError, match=f"^{word}: expected a flag of the command"):
        ask._check_words(["orders", "total", word])
