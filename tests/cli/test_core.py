"""What the command line says about the core: compiled or not, and what to do about it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from moneystate.cli import core, main
from moneystate.engine import order


@pytest.mark.parametrize(
    ("file", "kind"), [("order.py", "interpreted"), ("order.cpython-311-x86_64-linux-gnu.so", "compiled")]
)
def test_a_compiled_core_is_told_by_its_modules(file: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "__file__", f"/some/where/{file}")
    assert core.kind() == kind
    assert core.told().startswith(f"{kind} core")


def test_an_interpreted_core_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(order, "__file__", "order.py")
    assert "make env" in core.told()
    assert "install a wheel for this Python" in core.told(tmp_path)


def test_the_version_is_one_line_with_the_kind_of_core(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["moneystate", "--version"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    version = importlib.metadata.version("moneystate")
    assert capsys.readouterr().out == f"moneystate {version} ({core.told()})\n"
