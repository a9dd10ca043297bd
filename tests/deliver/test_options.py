"""What the options of workers need of the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moneystate.deliver import process
from moneystate.deliver.process import DeliverOptions
from moneystate.errors import ConfigError

LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512))
from moneystate.open_files import raise_limit
print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_allows() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["512", "512", "512"]


def test_more_connections_than_open_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "raise_limit", lambda: 1_024)
    DeliverOptions("m:s", "b:1", "g", "w", max_connections=824).check()
    with pytest.raises(ConfigError) as refused:
        DeliverOptions("m:s", "b:1", "g", "w", max_connections=825).check()
    assert str(refused.value).startswith(
        "--max-connections 825: expected a limit of open files of at least 1025, found 1024."
    )
