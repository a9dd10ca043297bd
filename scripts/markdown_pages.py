"""Markdown pages as the checks of the documentation read them: code blocks, headings, links and code in the text."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,})(?P<info>.*)$")
INDENTED = re.compile(r"^(?: {4}|\t)")
HEADING = re.compile(r"^#{1,6} +(?P<text>.*?)(?: +#+)?$")
LIST_ITEM = re.compile(r"^ *(?:[-*+]|\d+\.) ")
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)(?: +\"[^\"]*\")?\)")
CODE = re.compile(r"(?P<ticks>`+)(?P<code>.+?)(?P=ticks)")


class CodeBlock(NamedTuple):
    line: int  # of its first line of code
    language: str  # empty for an indented block
    text: str


class Word(NamedTuple):
    """A link's target, or code in the text."""

    line: int
    text: str


class Page(NamedTuple):
    path: Path
    blocks: list[CodeBlock]
    prose: list[str]  # all lines, those of code blocks empty

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT)) if self.path.is_relative_to(ROOT) else str(self.path)

    def links(self) -> Iterator[Word]:
        for number, line in enumerate(self.prose, 1):
            for link in LINK.finditer(CODE.sub("`code`", line)):
                yield Word(number, link["target"])

    def code(self) -> Iterator[Word]:
        """Code between backticks; it may go over a line's end."""
        text = "\n".join(self.prose)
        for paragraph in re.finditer(r"(?:.+\n?)+", text):
            for code in CODE.finditer(paragraph[0].replace("\n", " ")):
                yield Word(text.count("\n", 0, paragraph.start() + code.start()) + 1, code["code"])

    def anchors(self) -> set[str]:
        """Returns the anchors of its headings, as GitHub and the documentation site make them."""
        slugs: set[str] = set()
        for line in self.prose:
            if heading := HEADING.match(line):
                name, slug, count = slug_of(heading["text"]), slug_of(heading["text"]), 0
                while slug in slugs:
                    count += 1
                    slug = f"{name}_{count}"
                slugs.add(slug)
        return slugs


def slug_of(heading: str) -> str:
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower())


def pages() -> list[Page]:
    """All pages that git knows or could take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [page_of(path, path.read_text()) for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def page_of(path: Path, text: str) -> Page:
    blocks: list[CodeBlock] = []
    prose: list[str] = []
    lines = iter(enumerate(text.splitlines(), 1))
    in_list = False
    for number, line in lines:
        in_list = bool(LIST_ITEM.match(line)) or (in_list and (not line.strip() or line.startswith("  ")))
        if fence := FENCE.match(line):
            body = _until_fence(lines, fence)
            language = fence["info"].split()[0] if fence["info"].strip() else ""
            blocks.append(CodeBlock(number + 1, language or "nothing", "\n".join(body) + "\n"))
            prose += [""] * (len(body) + 2)
        elif INDENTED.match(line) and not in_list and (not prose or not prose[-1].strip()):
            if blocks and blocks[-1].language == "" and blocks[-1].line + blocks[-1].text.count("\n") == number:
                blocks[-1] = blocks[-1]._replace(text=blocks[-1].text + line[4:] + "\n")
            else:
                blocks.append(CodeBlock(number, "", line[4:] + "\n"))
            prose.append("")
        else:
            prose.append(line)
    return Page(path, blocks, prose)


def _until_fence(lines: Iterator[tuple[int, str]], fence: re.Match[str]) -> list[str]:
    body = []
    for _, line in lines:
        if line.strip() == fence["mark"]:
            break
        body.append(line.removeprefix(fence["indent"]))
    return body
