"""Checks that no retired term is in use: docs/renames.md lists them, docs/glossary.md says what the terms mean.

`make check` runs it. It looks at identifiers and docstrings of the Python code, and at the documentation.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "renames.md"
# The page itself, the history of changes, and the contracts that came from outside.
EXEMPT = ("docs/renames.md", "docs/DESIGN.md", "docs/SERVICES.md", "CHANGELOG.md")
GENERATED = ("*_pb2.py", "*_pb2_grpc.py")
VALUES = re.compile(r"`([^`]+)`")


class Retired(NamedTuple):
    term: str
    instead: str
    kind: str = "any"  # any, attr or name: which uses of an identifier are retired
    files: tuple[str, ...] = ("*",)  # where it is retired
    but: tuple[str, ...] = ()  # where it is not

    def holds_in(self, path: str) -> bool:
        return any(fnmatch(path, f) for f in self.files) and not any(fnmatch(path, f) for f in self.but)


class Use(NamedTuple):
    line: int
    name: str
    kind: str  # attr or name
    binds: bool  # whether it gives a variable or parameter its name


class Terms(NamedTuple):
    modules: list[Retired]
    identifiers: list[Retired]
    variables: list[Retired]
    phrases: list[Retired]


def terms(page: str) -> Terms:
    """The tables of docs/renames.md, by their headings."""
    tables: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in page.splitlines():
        if line.startswith("## "):
            rows = tables.setdefault(line[3:], [])
        elif line.startswith("| `"):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return Terms(
        [Retired(_value(r[0]), _value(r[1])) for r in tables["Modules"]],
        [Retired(_value(r[0]), _value(r[1]), r[2], tuple(VALUES.findall(r[3]))) for r in tables["Identifiers"]],
        [
            Retired(_value(r[0]), r[1], "name", ("*",), tuple(VALUES.findall(r[2])) if len(r) > 2 else ())
            for r in tables["Words that are not names of variables"]
        ],
        [Retired(_value(r[0]), r[1].strip(" |")) for r in tables["Phrases in documentation"]],
    )


def _value(cell: str) -> str:
    return VALUES.findall(cell)[0]


def uses(source: str) -> Iterator[Use]:
    """All identifiers of a module."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name():
                yield Use(node.lineno, node.id, "name", isinstance(node.ctx, ast.Store))
            case ast.arg():
                yield Use(node.lineno, node.arg, "name", True)
            case ast.Attribute():
                yield Use(node.end_lineno or node.lineno, node.attr, "attr", False)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield Use(node.lineno, node.name, "name", False)
            case ast.alias():
                yield Use(node.lineno, node.asname or node.name, "name", False)


def in_code(path: str, source: str, retired: Terms) -> Iterator[tuple[int, Retired]]:
    names = {r.term: [s for s in retired.identifiers if s.term == r.term] for r in retired.identifiers}
    words = {r.term: r for r in retired.variables}
    for use in uses(source):
        for r in names.get(use.name, []):
            if r.kind in ("any", use.kind) and r.holds_in(path):
                yield use.line, r
        if use.binds and use.name in words and words[use.name].holds_in(path):
            yield use.line, words[use.name]


def in_text(path: str, text: str, retired: Terms) -> Iterator[tuple[int, Retired]]:
    """Modules, phrases, and names that are no English words."""
    everywhere = [r for r in retired.identifiers if r.files == ("*",) and not (r.term.isalpha() and r.term.islower())]
    sought = [*retired.modules, *[r for r in retired.phrases if path.endswith(".md")], *everywhere]
    # a path may be the end of another one
    patterns = [(r, re.compile(rf"(?<![\w/.]){re.escape(r.term)}(?!\w)")) for r in sought]
    dotted = [r.term.removesuffix(".py").replace("/", ".") for r in retired.modules]
    patterns += [
        (r, re.compile(rf"(?<![\w.]){re.escape(d)}(?!\w)")) for r, d in zip(retired.modules, dotted, strict=True)
    ]
    for number, line in enumerate(text.splitlines(), 1):
        for r, pattern in patterns:
            if pattern.search(line):
                yield number, r


def main() -> int:
    retired = terms(PAGE.read_text())
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    count = 0
    for path in listed.stdout.splitlines():
        if path in EXEMPT or any(fnmatch(path, g) for g in GENERATED) or not (ROOT / path).is_file():
            continue
        text = (ROOT / path).read_text()
        hits = set(in_text(path, text, retired))
        if path.endswith(".py"):
            hits |= set(in_code(path, text, retired))
        for line, r in sorted(hits):
            print(f"{path}:{line}: {r.term} is a retired term. Write {r.instead} (docs/renames.md).", file=sys.stderr)
        count += len(hits)
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main())
