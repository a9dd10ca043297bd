"""`import moneystate as ms`."""

from __future__ import annotations

import subprocess
import sys

import moneystate


def test_every_public_name_is_there() -> None:
    for name in moneystate.__all__:
        assert getattr(moneystate, name) is not None
    assert set(moneystate.__all__) == set(moneystate._HOME_OF)


def test_the_engine_imports_nothing_of_the_api() -> None:
    code = "import sys, moneystate.engine.keygroup; print([m for m in sys.modules if m.startswith('moneystate.api')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
