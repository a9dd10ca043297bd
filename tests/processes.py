"""Processes that tests start."""

from __future__ import annotations

import subprocess

import psutil


def kill_with_children(process: subprocess.Popen[bytes], within_s: float) -> None:
    """Kills them by their ids. None of them is left when this returns."""
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    for child in children:
        if child.is_running():
            child.kill()
    process.wait(within_s)
    psutil.wait_procs(children, within_s)
