"""Checks the documentation: links and anchors lead somewhere, paths exist, and code blocks are what they say.

`make check` runs it, and then builds the site. scripts/check_docs_commands.py checks the commands of the pages.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from markdown_pages import ROOT, Page, page_of, pages

# Pages about the past: paths and commands in them are those of their time.
HISTORY = ("CHANGELOG.md", "tests/regressions.md", "docs/adr/", "docs/benchmarks/")
EXTERNAL = re.compile(r"^[a-z][a-z+.-]*:")
FOLDERS = "avro|docs|examples|moneystate|proto|scripts|services|state_tools|tests"
PATH = re.compile(rf"^(?:{FOLDERS})(?:/[\w.-]+)*/?$|^[A-Z]+\.md$")
PLACEHOLDER = re.compile(r"[A-Z]{2,}|\*|<")
KINDS = ("python", "toml", "json", "yaml", "sh", "text", "diff", "mermaid", "properties", "proto", "sql", "java", "go")

Problem = tuple[int, str]


def link_problems(page: Page) -> Iterator[Problem]:
    for line, target in page.links():
        if EXTERNAL.match(target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.path.parent / name).resolve() if name else page.path
        if not path.exists():
            yield line, f"the link {target} leads nowhere. Correct its path"
        elif anchor and path.suffix == ".md":
            anchors = page_of(path, path.read_text()).anchors()
            if anchor not in anchors:
                yield line, f"the link {target} has no heading. Its page has {', '.join(sorted(anchors))}"


def path_problems(page: Page) -> Iterator[Problem]:
    """Paths of this project in code, which would otherwise outlive a move."""
    if page.name.startswith(HISTORY):
        return
    for line, text in page.code():
        if PATH.match(text) and not PLACEHOLDER.search(text.partition("/")[2]) and not exists(text):
            yield line, f"`{text}`: there is no such file. Write its present path"


def exists(path: str) -> bool:
    return (ROOT / path).exists() or (ROOT / "docs" / path).exists()


def block_problems(page: Page) -> Iterator[Problem]:
    for block in page.blocks:
        if block.language not in KINDS:
            language = block.language or "indentation"
            yield block.line - 1, f"a code block with {language} as its language. It takes one of {', '.join(KINDS)}"
        elif parse := PARSERS.get(block.language):
            try:
                parse(block.text)
            except (SyntaxError, ValueError) as e:
                yield block.line, f"this is no {block.language}: {' '.join(str(e).split())}. Correct it"


def navigation_problems(page: Page) -> Iterator[Problem]:
    """A page of the site that its navigation leaves out."""
    folder = ROOT / "docs"
    if page.path.is_relative_to(folder) and page.path.parent.name != "adr":
        name = str(page.path.relative_to(folder))
        if f": {name}\n" not in (ROOT / "mkdocs.yml").read_text():
            yield 1, f"the site's navigation has no {name}. Add it to mkdocs.yml"


def compile_python(text: str) -> None:
    compile(text, "page", "exec", dont_inherit=True)


def read_json(text: str) -> None:
    """One value, or several after one another."""
    text = text.strip()
    while text:
        _, end = json.JSONDecoder().raw_decode(text)
        text = text[end:].strip()


PARSERS: dict[str, Callable[[str], object]] = {
    "python": compile_python,
    "toml": tomllib.loads,
    "json": read_json,
}


def problems(page: Page) -> list[Problem]:
    return sorted([*link_problems(page), *path_problems(page), *block_problems(page), *navigation_problems(page)])


def main(paths: list[str]) -> int:
    chosen = [page_of(Path(path).resolve(), Path(path).read_text()) for path in paths] or pages()
    count = 0
    for page in chosen:
        for line, message in problems(page):
            print(f"{page.name}:{line}: {message}.", file=sys.stderr)
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
