"""`--review` shows the state that would be, before there is a savepoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.bootstrap.job import Bootstrap
from moneystate.bootstrap.options import BootstrapOptions
from moneystate.cli.review import check_review, review
from moneystate.errors import CheckpointError, ConfigError
from tests.bootstrap.harness import Here, bootstrap, write_archive
from tests.enrichment.harness import inputs
from tests.enrichment.jobs import STATE, Rules, enrichment_job
from tests.job.harness import small_workload


def test_counts_users_and_differences_are_shown_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = inputs(small_workload("--events", "60"))
    places = {(r.topic, r.partition) for r in records}
    write_archive(tmp_path / "archive", records, places)
    write_archive(tmp_path / "less", records[:-10], places)
    bootstrap(Rules(), tmp_path / "live", sources=[str(tmp_path / "less")])
    out = tmp_path / "savepoint"
    options = BootstrapOptions([str(tmp_path / "archive")], out, key_groups=4, partitions=2)
    prepared = Bootstrap(enrichment_job(Rules()), options, lambda progress: None).prepare(Here())
    assert review(STATE, prepared, str(tmp_path / "live"), yes=True)
    shown = capsys.readouterr().err
    assert f"{prepared.keys:,}" in shown
    assert prepared.savepoint.manifest.fingerprint in shown
    assert '"UY"' in shown
    assert "differences from" in shown
    assert not out.exists()


def test_a_review_that_nobody_can_answer_or_compare_is_refused_first(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--yes"):
        check_review("", yes=False)
    with pytest.raises(CheckpointError):
        check_review(str(tmp_path), yes=True)
