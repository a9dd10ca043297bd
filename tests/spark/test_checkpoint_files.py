"""Our checkpoint files and Spark's own, held to one contract, and each to what the other has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from moneystate.spark.jvm.classes import LOCAL_CHECKPOINT_FILES
from moneystate.spark.session import CHECKPOINT_FILES

SPARKS = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
ODD_NAME = "a b%20c#ü"


class Manager:
    """A manager of a folder, through py4j. Texts in place of bytes."""

    def __init__(self, spark: SparkSession, name: str, folder: Path) -> None:
        self.jvm: Any = spark._jvm
        self.settings = spark._jsparkSession.sessionState().newHadoopConf()
        made: Any = self.jvm
        for part in name.split("."):
            made = getattr(made, part)
        self.java = made(self.path(folder), self.settings)

    def path(self, file: Path) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path("file", None, str(file))

    def create(self, file: Path, text: str, overwrite: bool) -> Any:
        """A stream with `text` in it, not closed."""
        stream = self.java.createAtomic(self.path(file), overwrite)
        stream.write(bytearray(text.encode()))
        return stream

    def write(self, file: Path, text: str, overwrite: bool = True) -> None:
        self.create(file, text, overwrite).close()

    def read(self, file: Path) -> str:
        stream = self.java.open(self.path(file))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def list(self, folder: Path, pattern: str = "*") -> dict[str, tuple[bool, int]]:
        """Names with whether they are folders, and the length of the files."""
        statuses = self.java.list(self.path(folder), self.jvm.org.apache.hadoop.fs.GlobFilter(pattern))
        return {f.getPath().getName(): (f.isDirectory(), 0 if f.isDirectory() else f.getLen()) for f in statuses}


@pytest.fixture(params=[LOCAL_CHECKPOINT_FILES, SPARKS], ids=["ours", "sparks"])
def manager(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Manager:
    return Manager(spark, request.param, tmp_path)


def names(folder: Path) -> set[str]:
    """All that is in the folder, but for Hadoop's checksums."""
    return {f.name for f in folder.iterdir() if not f.name.endswith(".crc")}


def thrown(error: pytest.ExceptionInfo[Py4JJavaError]) -> str:
    name: str = error.value.java_exception.getClass().getName()
    return name


def test_a_file_appears_whole_and_at_its_end(manager: Manager, tmp_path: Path) -> None:
    file, text = tmp_path / ODD_NAME, "ü" * 20_000
    stream = manager.create(file, text, False)
    assert not file.exists()
    assert not manager.java.exists(manager.path(file))
    stream.close()
    stream.close()
    assert file.read_text() == manager.read(file) == text
    assert manager.java.exists(manager.path(file))
    assert names(tmp_path) == {file.name}


def test_what_may_be_replaced_is_and_nothing_else(manager: Manager, tmp_path: Path) -> None:
    file = tmp_path / "7"
    manager.write(file, "first", overwrite=False)
    manager.write(file, "the second", overwrite=True)
    assert manager.read(file) == "the second"
    with pytest.raises(Py4JJavaError) as error:
        manager.write(file, "third", overwrite=False)
    assert thrown(error) == "org.apache.hadoop.fs.FileAlreadyExistsException"
    assert manager.read(file) == "the second"


def test_of_two_that_write_a_file_at_once_one_wins(manager: Manager, tmp_path: Path) -> None:
    file = tmp_path / "7"
    one, other = (manager.create(file, text, False) for text in ("one", "other"))
    one.close()
    with pytest.raises(Py4JJavaError):
        other.close()
    other.cancel()  # as Spark does after an error
    assert manager.read(file) == "one"


def test_a_canceled_file_leaves_nothing(manager: Manager, tmp_path: Path) -> None:
    file = tmp_path / "7"
    stream = manager.create(file, "never to be seen", True)
    stream.cancel()
    stream.close()
    assert list(tmp_path.iterdir()) == []


def test_listing_filters_and_hides_checksums(manager: Manager, tmp_path: Path) -> None:
    for name in ("1.zip", "2.zip", "2.changelog"):
        manager.write(tmp_path / name, name)
    (tmp_path / ".1.zip.crc").write_bytes(b"crc\0")
    manager.java.mkdirs(manager.path(tmp_path / "a" / "b"))
    assert manager.list(tmp_path) == {
        "1.zip": (False, 5),
        "2.zip": (False, 5),
        "2.changelog": (False, 11),
        "a": (True, 0),
    }
    assert set(manager.list(tmp_path, "*.zip")) == {"1.zip", "2.zip"}
    assert manager.list(tmp_path / "a" / "b") == {}


def test_a_missing_folder_cannot_be_listed_nor_written_to_nor_a_missing_file_read(
    manager: Manager, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"
    for refused in (manager.list, manager.read, lambda folder: manager.write(folder / "7", "text")):
        with pytest.raises(Py4JJavaError) as error:
            refused(missing)
        assert thrown(error) == "java.io.FileNotFoundException"


def test_deleting_takes_all_that_is_there_and_what_is_missing_for_done(manager: Manager, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    manager.java.mkdirs(manager.path(folder / "b"))
    manager.write(folder / "b" / "1", "text")
    manager.write(folder / "2", "text")
    manager.java.delete(manager.path(folder / "2"))
    assert [f.name for f in folder.iterdir()] == ["b"]  # no checksum either
    for _ in range(2):
        manager.java.delete(manager.path(folder))
        assert not folder.exists()


def test_a_folder_may_be_there_or_be_a_link_to_one(manager: Manager, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        manager.java.mkdirs(manager.path(tmp_path / "link" / "a" / "b"))
        manager.java.mkdirs(manager.path(tmp_path / "link"))
    assert (tmp_path / "real" / "a" / "b").is_dir()


def test_the_checkpoint_folder_is_made_and_named_in_full(spark: SparkSession, tmp_path: Path) -> None:
    ours, theirs = (
        Manager(spark, name, tmp_path / "a" / ODD_NAME).java.createCheckpointDirectory()
        for name in (LOCAL_CHECKPOINT_FILES, SPARKS)
    )
    assert ours.toString() == theirs.toString()
    assert (tmp_path / "a" / ODD_NAME).is_dir()


def test_deleting_a_link_leaves_what_it_leads_to(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "kept").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    manager = Manager(spark, LOCAL_CHECKPOINT_FILES, tmp_path)
    manager.java.delete(manager.path(tmp_path / "link"))
    assert not (tmp_path / "link").exists()
    assert (tmp_path / "real" / "kept").exists()


@pytest.mark.parametrize("begins", [LOCAL_CHECKPOINT_FILES, SPARKS])
def test_either_reads_what_the_other_wrote_in_its_place(spark: SparkSession, tmp_path: Path, begins: str) -> None:
    """Hadoop checks a file against the checksums beside it, whoever wrote the file."""
    ends = SPARKS if begins == LOCAL_CHECKPOINT_FILES else LOCAL_CHECKPOINT_FILES
    one, other = (Manager(spark, name, tmp_path) for name in (begins, ends))
    file = tmp_path / "7"
    for writer, text in ((one, "1"), (other, "the second"), (one, "3"), (other, "the fourth")):
        writer.write(file, text)
        assert one.read(file) == other.read(file) == text
    one.java.delete(one.path(file))
    other.write(file, "after it was deleted", overwrite=False)
    assert one.read(file) == other.read(file) == "after it was deleted"


def test_checksums_that_a_lost_file_left_are_no_harm(spark: SparkSession, tmp_path: Path) -> None:
    file, ours, sparks = tmp_path / "7", *(Manager(spark, n, tmp_path) for n in (LOCAL_CHECKPOINT_FILES, SPARKS))
    sparks.write(file, "lost")
    file.unlink()
    ours.write(file, "new, and longer", overwrite=False)
    assert ours.read(file) == sparks.read(file) == "new, and longer"


def test_what_spark_wrote_is_still_checked(spark: SparkSession, tmp_path: Path) -> None:
    file, ours, sparks = tmp_path / "7", *(Manager(spark, n, tmp_path) for n in (LOCAL_CHECKPOINT_FILES, SPARKS))
    sparks.write(file, "as it was")
    file.write_text("it was as")
    with pytest.raises(Py4JJavaError) as error:
        ours.read(file)
    assert thrown(error) == "org.apache.hadoop.fs.ChecksumException"


@pytest.fixture
def restored(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, whose manager the test may change."""
    yield spark
    spark.conf.set(CHECKPOINT_FILES, LOCAL_CHECKPOINT_FILES)


def test_a_job_writes_by_ours(spark: SparkSession) -> None:
    assert spark.conf.get(CHECKPOINT_FILES) == LOCAL_CHECKPOINT_FILES


def test_a_checkpoint_goes_on_with_either(restored: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    for batch, manager in enumerate((SPARKS, LOCAL_CHECKPOINT_FILES, SPARKS)):
        restored.conf.set(CHECKPOINT_FILES, manager)
        assert count_keys(restored, tmp_path / "in", checkpoint, batch) == {1: batch + 1, 2: batch + 1}
        assert (checkpoint / "offsets" / f".{batch}.crc").exists() == (manager == SPARKS)
    for manager in (SPARKS, LOCAL_CHECKPOINT_FILES):
        restored.conf.set(CHECKPOINT_FILES, manager)
        assert state_on_disk(restored, checkpoint) == {1: 3, 2: 3}


def count_keys(spark: SparkSession, inputs: Path, checkpoint: Path, batch: int) -> dict[int, int]:
    """Run a batch with a record for each of two keys; gives how many of each there were in all batches."""
    inputs.mkdir(exist_ok=True)
    waiting = inputs.with_name("waiting.json")
    waiting.write_text("".join(json.dumps({"key": key}) + "\n" for key in (1, 2)))
    waiting.rename(inputs / f"{batch}.json")
    counts: dict[int, int] = {}
    query = (
        spark.readStream.schema("key int")
        .json(str(inputs))
        .groupBy("key")
        .count()
        .writeStream.outputMode("update")
        .foreachBatch(lambda frame, _: counts.update({row["key"]: row["count"] for row in frame.collect()}))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    return counts


def state_on_disk(spark: SparkSession, checkpoint: Path) -> dict[int, int]:
    rows = spark.read.format("statestore").load(str(checkpoint)).collect()
    return {row.key.key: row.value["count"] for row in rows}
