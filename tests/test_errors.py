"""Every error that a user can meet says what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate import errors
from moneystate.cli.connection import ADVICE, EXIT_CODES
from state_tools.export import open_checkpoint

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("moneystate", "services", "state_tools")
TREE = {
    name
    for name, cls in vars(errors).items()
    if isinstance(cls, type) and issubclass(cls, errors.MoneystateError) and cls is not errors.StepError
}  # a step's error is about a service's code: the runtime adds its record, and what to do


def raised() -> Iterator[tuple[str, ast.Call]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TREE:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def says_what_to_do(call: ast.Call) -> bool:
    advice = [*call.args[1:2], *[keyword.value for keyword in call.keywords if keyword.arg == "do"]]
    return bool(advice) and not (isinstance(advice[0], ast.Constant) and not advice[0].value)


def test_each_error_says_what_to_do() -> None:
    calls = list(raised())
    assert len(calls) > 300
    assert [where for where, call in calls if not says_what_to_do(call)] == []


def test_each_refusal_of_a_query_server_has_its_advice() -> None:
    assert set(EXIT_CODES) - set(ADVICE) == {code for code in EXIT_CODES if code.name == "UNAVAILABLE"}


@pytest.mark.parametrize(("made", "seen"), [(True, "a folder without one"), (False, "no such path")])
def test_a_path_without_a_checkpoint_is_told_from_a_missing_one(tmp_path: Path, made: bool, seen: str) -> None:
    folder = tmp_path / "checkpoint"
    if made:
        folder.mkdir()
    with pytest.raises(errors.CheckpointError) as raised_error:
        open_checkpoint(str(folder))
    assert str(raised_error.value) == f"{folder}: expected a checkpoint, found {seen}. Do: give the job's --checkpoint."
