"""The metrics of a query server whose workers are starting."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.serving.metrics import live, of_all_processes, ready


@pytest.mark.parametrize("written", [b"", b"\0\0"], ids=["created", "begun"])
def test_a_worker_that_has_just_created_its_file_is_not_ready_yet(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "gauge_livemax_1.db").write_bytes(written)
    registry = of_all_processes(str(tmp_path))
    assert not ready(registry).is_good
    assert live(registry).is_good
    assert list(registry.collect()) == []
