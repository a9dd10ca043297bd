"""The job as a process of its own, while something is measured on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.tree import Tree

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def running_job(
    servers: str, prefix: str, checkpoint: Path, flags: list[str], command: Sequence[str] = ("run", "enrichment")
) -> Iterator[tuple[Tree, subprocess.Popen[bytes]]]:
    """Ended by SIGTERM. Raises RuntimeError with what it said where it ends with another code than 0. Its stderr is
    kept beside the checkpoint."""
    whole = [sys.executable, "-m", "moneystate.cli.main", *command, "--bootstrap-servers", servers, "--quiet"]
    whole += ["--checkpoint", str(checkpoint), "--topic-prefix", prefix, *flags]
    stderr_file = checkpoint.parent / "err"
    with stderr_file.open("w") as err:
        process = subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=err, cwd=ROOT)
        tree = Tree(process.pid)
        try:
            yield tree, process
        finally:
            process.terminate()
            process.wait()
            tree.end()
    if process.returncode:
        raise RuntimeError(stderr_file.read_text()[-2000:])
