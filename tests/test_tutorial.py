"""docs/tutorial.md, run as it stands: files are written, changes applied, commands run, and what they print compared.

Only the ports are others than on the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ports import free_port

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
ROOT = PAGE.parents[1]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
MARK = "=== block {} ==="
CLEAN_UP = "code=$?; set +e; kill $(jobs -p) 2>/dev/null; moneystate kafka stop; exit $code"
LIMIT_S = 600
ANYTHING = "..."


class Block(NamedTuple):
    kind: str
    file: str
    text: str


def blocks(page: str) -> list[Block]:
    return [Block(kind, file, text) for kind, file, text in BLOCK.findall(page)]


def script(page: list[Block]) -> str:
    """One shell runs all of the page, so that what it starts in the background stays."""
    lines = ["set -euo pipefail", f"trap '{CLEAN_UP}' EXIT"]
    for number, block in enumerate(page):
        lines.append(f"echo '{MARK.format(number)}'")
        if block.kind == "python":
            lines.append(f"cat > {block.file} <<'END_OF_FILE'\n{block.text}END_OF_FILE")
        elif block.kind == "diff":
            lines.append(f"patch --silent {block.file} <<'END_OF_DIFF'\n{block.text}END_OF_DIFF")
        elif block.kind == "sh":
            lines.append(block.text)
    return "\n".join(lines)


def outputs(printed: str, page: list[Block]) -> list[str]:
    """What each block printed."""
    parts = re.split("|".join(re.escape(MARK.format(n)) for n in range(len(page))), printed)
    return [part.strip() for part in parts[1:]]


def pattern(expected: str) -> str:
    """`...` stands for anything; other lines follow one another, perhaps with others between them."""
    parts = [re.escape(line).replace(re.escape(ANYTHING), ".*") for line in expected.strip().splitlines()]
    return r"(?s)" + r".*".join(parts)


@pytest.mark.long
def test_the_tutorial_runs_as_it_stands(tmp_path: Path) -> None:
    kafka, queries = free_port(), free_port()
    text = (
        PAGE.read_text()
        .replace("127.0.0.1:9092", f"127.0.0.1:{kafka}")
        .replace("127.0.0.1:8484", f"127.0.0.1:{queries}")
    )
    page = blocks(text)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "MONEYSTATE_KAFKA_PORT": str(kafka),
        "MONEYSTATE_KAFKA_DATA_DIR": str(tmp_path / "kafka"),
    }
    folder = tmp_path / "shop"
    folder.mkdir()
    done = subprocess.run(
        ["bash", "-c", script(page)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    printed = outputs(done.stdout, page)
    compared = 0
    for number, block in enumerate(page):
        if block.kind == "text":
            assert re.search(pattern(block.text), printed[number - 1]), f"{block.text}\n---\n{printed[number - 1]}"
            compared += 1
    assert compared >= 7


@pytest.mark.parametrize(("expected", "same"), [("a\nc", True), ("a\n...x", False), ("...b...", True), ("c\na", False)])
def test_what_is_expected_is_compared_line_by_line(expected: str, same: bool) -> None:
    assert bool(re.search(pattern(expected), "a\nb\nc")) is same
