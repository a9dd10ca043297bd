"""Generated source: lines with indentation, names that are free, and what the code refers to."""

from __future__ import annotations

from typing import Any


class Source:
    """`names`: what the code refers to, by the names that it uses."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.used = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def fresh(self, stem: str) -> str:
        self.used += 1
        return f"{stem}{self.used}"

    def constant(self, stem: str, value: Any) -> str:
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def run(self, label: str) -> dict[str, Any]:
        """The namespace of the code once it has run."""
        namespace = dict(self.names)
        exec(compile(self.text(), f"<generated for {label}>", "exec"), namespace)
        return namespace
