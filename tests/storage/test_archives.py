"""An archive in a store: written, continued after a kill, and read by a bootstrap."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.bootstrap.layout import NOTE
from moneystate.errors import ArchiveError
from moneystate.job.storage.folder import folder_at
from tests.bootstrap.test_kafka import WALLET, archive, from_archive, from_kafka, offsets_file
from tests.job.harness import Setup, small_workload
from tests.storage.hdfs import Hdfs


@pytest.mark.long
def test_an_archive_in_a_store_gives_the_state_that_kafka_gives(setup: Setup, hdfs: Hdfs, tmp_path: Path) -> None:
    address = f"{hdfs.address}/{setup.prefix}/archive"
    setup.create_inputs()
    setup.send(small_workload("--events", "200"))
    archive(setup, address, as_of=str(offsets_file(setup, 0.5)), records_per_file=1_000)
    place = folder_at(f"{address}/{WALLET}/0", "--archive")
    (listed,) = (name for name in place.names("") if name != NOTE)
    beyond = 1 + int(listed.removesuffix(".avro").partition("-")[2])
    left = f"{beyond:020d}-{beyond + 2:020d}.avro"
    place.write(left, b"the beginning of what a killed run has uploaded")
    with pytest.raises(ArchiveError, match=f"{left}: expected a file that {NOTE} lists"):
        from_archive(setup, "unfinished", address)
    archive(setup, address, records_per_file=1_000)
    assert left not in place.names("")
    assert len(place.names("")) == 3  # what was there is not written again
    made = from_archive(setup, "archived", address).manifest
    assert made.fingerprint == from_kafka(setup, "kafka").manifest.fingerprint
    with pytest.raises(ArchiveError, match=f"{address}/other/.*: expected a folder for each topic"):
        from_archive(setup, "missing", f"{address}/other")
