"""Collects generated source code, and runs it."""

from __future__ import annotations

from typing import Any


class SourceText:
    """The source code of generated functions."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}  # the objects that the code uses, by name
        self.used = 0  # how many names `fresh` has made

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def fresh(self, stem: str) -> str:
        """A name that the code does not use yet."""
        self.used += 1
        return f"{stem}{self.used}"

    def constant(self, stem: str, value: Any) -> str:
        """A name under which the code can use `value`."""
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def run(self, label: str) -> dict[str, Any]:
        """Runs the code and returns its namespace. `label` names the code in tracebacks."""
        namespace = dict(self.names)
        exec(compile(self.text(), f"<generated for {label}>", "exec"), namespace)
        return namespace
