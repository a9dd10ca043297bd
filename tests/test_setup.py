"""The layers of the environment: which target makes which, and which tools are left out."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = (ROOT / "scripts" / "setup_env.sh").read_text()
# whose tests need tools that others do not
TOOLS = ("tests/query", "tests/deploy", "tests/ops", "tests/storage")


def layers_of(target: str) -> list[str]:
    """As make would call the script."""
    command = ["make", "--dry-run", target, "ARGS="]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (call,) = re.findall(r"scripts/setup_env\.sh (.*)", printed)
    return str(call).split()


def test_each_target_makes_its_own_layers() -> None:
    assert layers_of("demo") == ["run-time"]
    for target in ("test-fast", "check", "docs", "fmt", "lock", "sbom", "audit", "wheels", "test-pythons"):
        assert layers_of(target) == ["development"]
    assert layers_of("fuzz") == ["development", "core"]
    for target in ("env", "bench"):
        assert layers_of(target) == ["development", "core", "archive"]
    for target in ("test", "test-long"):
        assert layers_of(target) == ["development", "core", "archive", "tools", "tests"]


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("tests", set(TOOLS)),
        ("-k watermark", set(TOOLS)),
        ("--numprocesses 2 tests/", set(TOOLS)),
        ("tests/engine -k port", set()),
        ("tests/deploy", {"tests/deploy"}),
        ("tests/deploy/test_image.py::test_pods", {"tests/deploy"}),
        ("tests/deployed", set()),
        ("tests/engine tests/storage/test_job.py tests/ops", {"tests/storage", "tests/ops"}),
        ("examples/orders", set()),
    ],
)
def test_a_tool_is_fetched_if_its_tests_may_run(words: str, needs: set[str]) -> None:
    function = SCRIPT[SCRIPT.index("take() {") :].partition("\n}\n")[0] + "\n}\n"
    calls = "".join(f'if take "$1" {folder}; then echo {folder}; fi\n' for folder in TOOLS)
    command = ["bash", "-euc", function + calls, "take", words]
    assert set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()) == needs


def test_every_tool_has_its_folder_in_the_script() -> None:
    for folder in TOOLS:
        assert (ROOT / folder).is_dir()
        assert re.search(rf'take "\$\*" [^;]*{folder}\b', SCRIPT)
