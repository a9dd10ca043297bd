"""Checks that no word of scripts/terms.toml is in use: names that say nothing, phrases that are no plain English, and
first words of fragments.

`make check` runs it. It reads the names in Python code, and the text of Python files, pages and .proto files.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TERMS = ROOT / "scripts" / "terms.toml"
OPENING = re.compile(r'\s*(?:r?"""|#|//)\s*(?P<word>\w+)')
COMMENT = re.compile(r"\s*(?:#|//)")
# The history of changes, and generated code.
EXEMPT = ("CHANGELOG.md", "tests/regressions.md", "*_pb2.py", "*_pb2_grpc.py")


class Variable(NamedTuple):
    """A word that is not a name."""

    instead: str
    files: tuple[str, ...]  # in which it is one


class Terms(NamedTuple):
    variables: dict[str, Variable]
    openings: dict[str, str]  # with what to write instead
    phrases: dict[str, str]  # with what to write instead


def terms(text: str) -> Terms:
    document = tomllib.loads(text)
    variables = {
        word: Variable(entry["instead"], tuple(entry.get("except", ())))
        for word, entry in document["variables"].items()
    }
    return Terms(variables, document["openings"], document["phrases"])


def names(source: str) -> Iterator[tuple[int, str]]:
    """The variables and parameters that a module names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def openings(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The first words of docstrings, and of comments on lines of their own."""
    if not path.endswith((".py", ".proto")):
        return
    is_comment = False
    for line, content in enumerate(text.splitlines(), 1):
        opening = OPENING.match(content)
        continues = is_comment and COMMENT.match(content)
        is_comment = COMMENT.match(content) is not None
        if opening is not None and not continues:
            yield line, opening["word"].capitalize()


def problems(path: str, text: str, refused: Terms) -> Iterator[tuple[int, str, str]]:
    """The line, the word, and what to write instead."""
    if path.endswith(".py"):
        for line, name in names(text):
            variable = refused.variables.get(name)
            if variable is not None and not any(fnmatch(path, pattern) for pattern in variable.files):
                yield line, name, variable.instead
    for line, word in openings(path, text):
        if word in refused.openings:
            yield line, word, refused.openings[word]
    patterns = {phrase: re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)", re.IGNORECASE) for phrase in refused.phrases}
    for line, content in enumerate(text.splitlines(), 1):
        for phrase, pattern in patterns.items():
            if pattern.search(content):
                yield line, phrase, refused.phrases[phrase]


def main() -> int:
    refused = terms(TERMS.read_text())
    command = ["git", "ls-files", "*.py", "*.md", "*.proto"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    count = 0
    for path in listed.stdout.splitlines():
        if any(fnmatch(path, pattern) for pattern in EXEMPT) or not (ROOT / path).is_file():
            continue
        for line, word, instead in sorted(problems(path, (ROOT / path).read_text(), refused)):
            print(f"{path}:{line}: expected other words, found {word!r}. Do: write {instead}.", file=sys.stderr)
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main())
