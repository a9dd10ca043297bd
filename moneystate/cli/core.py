"""Whether the core runs compiled, which makes a job about twice as fast (scripts/compile_core.py)."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import typer

from moneystate.engine import order

ROOT = Path(__file__).resolve().parents[2]


def kind() -> str:
    """`compiled` or `interpreted`: the same results, at another speed."""
    return "interpreted" if str(order.__file__).endswith(".py") else "compiled"


def told(root: Path = ROOT) -> str:
    """The kind, and for an interpreted core what to do about it."""
    if kind() == "compiled":
        return "compiled core"
    if (root / "scripts" / "compile_core.py").exists():
        return "interpreted core, at about half the speed: make env compiles it where a C compiler is"
    return (
        "interpreted core, at about half the speed: this wheel was built without a C compiler or with MONEYSTATE_PURE; "
        "install a wheel for this Python and platform"
    )


def show_version(wanted: bool) -> None:
    """Implements the flag `--version`: prints the line and ends the command."""
    if wanted:
        typer.echo(f"moneystate {importlib.metadata.version('moneystate')} ({told()})")
        raise typer.Exit
