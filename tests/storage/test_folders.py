"""A folder on this machine and those in stores answer alike."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moneystate.errors import CheckpointError, ConfigError, SavepointError
from moneystate.job.storage.folder import Folder, child, folder_at
from moneystate.job.storage.savepoints import check_out, is_savepoint
from moneystate.savepoint.manifest import NAME
from moneystate.spark.session import open_session
from tests.ports import free_port
from tests.storage.contract import check_last_write_is_read, check_missing
from tests.storage.hdfs import Hdfs
from tests.storage.s3 import S3
from tests.waiting import until


@pytest.fixture(params=["local", "hdfs"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, topic_prefix: str) -> Folder:
    if request.param == "local":
        return folder_at(str(tmp_path / "folder"), "--checkpoint")
    store: Hdfs = request.getfixturevalue("hdfs")
    return folder_at(f"{store.address}/{topic_prefix}/folder", "--checkpoint")


def test_a_file_is_read_as_it_was_written_last(folder: Folder) -> None:
    check_last_write_is_read(folder)


def test_what_is_not_there_is_said_to_be_missing(folder: Folder) -> None:
    check_missing(folder)


def test_two_may_write_one_file_of_a_folder_on_this_machine(tmp_path: Path) -> None:
    folder = folder_at(str(tmp_path), "--checkpoint")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: folder.write("a", bytes([n])), range(200)))  # raises what a thread has raised
    assert len(folder.read("a")) == 1
    assert folder.names("") == ["a"]


def test_s3_does_the_same(s3: S3) -> None:
    settings = [f"{name}={value}" for name, value in s3.settings.items()]
    command = [sys.executable, "-m", "tests.storage.contract", f"{s3.address}/contract", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_store_that_is_away_is_one_line_with_advice() -> None:
    settings = "spark.hadoop.ipc.client.connect.max.retries=0"
    away = f"hdfs://127.0.0.1:{free_port()}/x"
    command = [sys.executable, "-m", "moneystate.cli.main", "checkpoint", "show", "--checkpoint", away]
    done = subprocess.run([*command, "--spark-config", settings], capture_output=True, text=True, check=False)
    assert done.returncode == CheckpointError.exit_code
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {away}: expected to reach this folder, but java.net.ConnectException")
    assert "Do: " in line


def test_so_are_errors_that_spark_or_pyspark_has_turned_into_its_own(tmp_path: Path) -> None:
    session = open_session("tests", "local[1]", 1, {}, tmp_path / "driver.log")
    causes = {"hdfs://host:x/x": "Incomplete HDFS URI, no host", "hdfs://ho st/x": "Illegal character in authority"}
    try:
        for address, cause in causes.items():
            with pytest.raises(CheckpointError, match=f"{address}: expected to reach this folder, but .*{cause}"):
                folder_at(address, "--checkpoint").exists()
    finally:
        session.stop()


def test_an_upload_that_was_killed_is_no_savepoint_and_is_told_as_such(hdfs: Hdfs, tmp_path: Path) -> None:
    savepoint, out = tmp_path / "savepoint", f"{hdfs.address}/{tmp_path.name}/uploaded"
    (savepoint / "entries").mkdir(parents=True)
    for number in range(2_000):
        (savepoint / "entries" / str(number)).write_bytes(bytes(1_000))
    (savepoint / NAME).write_text("{}")
    upload = "import sys; from pathlib import Path; from moneystate.job.storage import savepoints as s; "
    command = [sys.executable, "-c", upload + "s.upload(Path(sys.argv[1]), sys.argv[2])", str(savepoint), out]
    with subprocess.Popen(command) as uploading:
        until(lambda: folder_at(out, "--out").names("entries"), lambda: "nothing is uploaded", 120)
        uploading.kill()
    assert 0 < len(folder_at(out, "--out").names("entries")) < 2_000
    assert not is_savepoint(out, "--savepoint")
    with pytest.raises(SavepointError, match=f"{out}: .* found files without {NAME}: an upload that did not come to"):
        check_out(out)
    folder_at(out, "--out").write(NAME, b"{}")
    with pytest.raises(SavepointError, match=f"{out}: .* found a savepoint"):
        check_out(out)


@pytest.mark.parametrize("address", ["hdfs:/x", "s3a:", "dbfs:/x", "hdfs://host"])
def test_an_address_without_a_host_and_a_folder_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=f"--checkpoint {address}: expected a path"):
        folder_at(address, "--checkpoint")


def test_services_have_folders_in_a_folder() -> None:
    assert child("s3a://bucket/x/", "orders") == "s3a://bucket/x/orders"
    assert child("file:///x", "orders") == "file:/x/orders"
    assert child("x", "orders") == "x/orders"
