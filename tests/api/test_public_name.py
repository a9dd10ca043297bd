"""`import moneystate as ms`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import moneystate
from examples.orders import orders


def test_every_public_name_is_there() -> None:
    for name in moneystate.__all__:
        assert getattr(moneystate, name) is not None
    assert set(moneystate.__all__) == set(moneystate._HOME_OF)


def test_the_engine_imports_nothing_of_the_api() -> None:
    rooms = tuple(f"moneystate.{room}" for room in ("api", "records", "runtime"))
    code = f"import sys, moneystate.engine.keygroup; print([m for m in sys.modules if m.startswith({rooms})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_module_in_another_folder_gets_the_types(tmp_path: Path) -> None:
    """As one of a user, who has moneystate installed."""
    module = tmp_path / "shop.py"
    right = Path(orders.__file__).read_text()
    wrong = (
        "@service.on(placed, order)\ndef other(ctx: ms.Context[Rules], e: PaymentTaken, order: Order) -> None: ...\n"
    )
    errors = []
    for text in (right, right + wrong):
        module.write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", "cache", module.name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        errors.append([line.partition(" error: ")[2] for line in done.stdout.splitlines()])
    assert errors[0] == []
    assert [line.partition(" has incompatible type")[0] for line in errors[1]] == ["Argument 1"]
