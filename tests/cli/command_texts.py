"""The texts of the program that name a command."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from typer.main import get_command

from moneystate.cli import main
from tests.cli.test_advice import COMMAND, ROOT

FOLDERS = ("moneystate", "services", "state_tools")


def texts_with_commands() -> Iterator[tuple[str, str]]:
    """All texts of the program that name a command, with their places; "X" for what is put in."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(file.read_text())
            parts: set[ast.AST] = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.Expr):
                    parts.add(node.value)  # a docstring
                if isinstance(node, ast.JoinedStr):
                    parts.update(node.values)
                text = _text(node) if node not in parts else None
                if text is not None and any(_is_command(match[1]) for match in COMMAND.finditer(text)):
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", text  # type: ignore[attr-defined]


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_command(words: str) -> bool:
    return words.split()[0] in get_command(main.app).commands  # type: ignore[attr-defined]
