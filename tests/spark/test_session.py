"""What a session adds to the user's settings, and the jar of our own that it starts the JVM with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moneystate.devbroker.java import find_java
from moneystate.errors import SetupError
from moneystate.spark.class_archive import USE, archive_file, earlier_archives
from moneystate.spark.jvm import make_class_archive
from moneystate.spark.jvm.classes import LOCAL_CHECKPOINT_FILES, our_jar
from moneystate.spark.jvm_start import (
    CLASS_PATH,
    DEFAULTS,
    JAVA_OPTIONS,
    WORKER_PYTHON,
    spark_settings,
    with_our_classes,
    worker_python,
)
from moneystate.spark.session import CHECKPOINT_FILES, use_our_checkpoint_files

JAVA = find_java()


def test_java_home_is_the_folder_of_the_java_that_a_link_leads_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(JAVA)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark_settings("test", "spark://host:7077", 1, {}, None)
    assert Path(os.environ["JAVA_HOME"], "bin", "java").samefile(JAVA)
    assert os.environ["JAVA_HOME"] != str(tmp_path)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MONEYSTATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache folder with the jar in it."""
    jar, folder = our_jar(JAVA), tmp_path / "filled"
    folder.mkdir()
    shutil.copy2(jar, folder)
    monkeypatch.setenv("MONEYSTATE_CACHE", str(folder))
    return folder


def test_the_jar_is_made_once_by_however_many_ask_and_nothing_is_left_beside_it(cache: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        jars = set(threads.map(our_jar, [JAVA, JAVA]))
    made = {jar: jar.stat() for jar in jars}
    assert list(cache.iterdir()) == list(jars)
    assert {our_jar(JAVA): our_jar(JAVA).stat().st_ino} == {jar: stat.st_ino for jar, stat in made.items()}
    with zipfile.ZipFile(our_jar(JAVA)) as jar:
        assert f"{LOCAL_CHECKPOINT_FILES.replace('.', '/')}.class" in jar.namelist()


def test_a_changed_source_gets_a_jar_of_its_own(cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "A.java"
    source.write_text("class A {}")
    before = our_jar(JAVA, tmp_path)
    source.write_text("class A { int a; }")
    assert our_jar(JAVA, tmp_path) != before
    assert before.exists()


def test_a_source_that_does_not_compile_is_an_error_with_the_compilers_words(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "A.java").write_text("class A { int a = nothing; }")
    with pytest.raises(SetupError, match="nothing"):
        our_jar(JAVA, tmp_path)
    assert list(cache.iterdir()) == []


def test_our_jar_comes_after_the_users() -> None:
    assert with_our_classes({}, JAVA)[CLASS_PATH] == str(our_jar(JAVA))
    users = {CLASS_PATH: "/some/where.jar"}
    assert with_our_classes(users, JAVA)[CLASS_PATH] == f"/some/where.jar{os.pathsep}{our_jar(JAVA)}"


def test_the_code_for_checkpoint_files_is_the_users_choice_or_ours_for_one_query(spark: SparkSession) -> None:
    other, query = spark.newSession(), spark.newSession()
    other.conf.set(CHECKPOINT_FILES, "some.other.Manager")
    for session in (other, query):
        use_our_checkpoint_files(session)
    assert other.conf.get(CHECKPOINT_FILES) == "some.other.Manager"
    assert query.conf.get(CHECKPOINT_FILES) == LOCAL_CHECKPOINT_FILES
    assert spark.newSession().conf.get(CHECKPOINT_FILES, None) is None


def test_without_our_jar_it_goes_on_with_sparks_and_says_so_in_one_line(
    cache: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    cache.touch()  # no folder can be made there
    assert with_our_classes({"a": "b"}, JAVA) == {"a": "b"}
    query = spark.newSession()
    use_our_checkpoint_files(query)
    assert query.conf.get(CHECKPOINT_FILES, None) is None
    (warning,) = caplog.messages
    assert warning.startswith("warning: ")
    assert "\n" not in warning


def test_the_jar_is_the_same_to_the_byte_and_second_whoever_makes_it(filled: Path) -> None:
    """Java compares the time of a jar with what its class archive was made from."""
    first = our_jar(JAVA)
    content, modified_ns = first.read_bytes(), first.stat().st_mtime_ns
    first.unlink()
    assert (our_jar(JAVA).read_bytes(), our_jar(JAVA).stat().st_mtime_ns) == (content, modified_ns)


def test_the_class_archive_is_used_once_it_is_there_beside_the_users_options(filled: Path) -> None:
    before = with_our_classes({}, JAVA)[JAVA_OPTIONS]
    assert before == DEFAULTS[JAVA_OPTIONS]
    file = archive_file(JAVA, our_jar(JAVA))
    file.touch()
    options = with_our_classes({JAVA_OPTIONS: "-Dusers=own"}, JAVA)[JAVA_OPTIONS].split()
    assert options[:2] == ["-Dusers=own", f"-XX:SharedArchiveFile={file}"]
    for users in ("-XX:SharedArchiveFile=/their.jsa", "-XX:ArchiveClassesAtExit=/their.jsa"):
        assert with_our_classes({JAVA_OPTIONS: users}, JAVA)[JAVA_OPTIONS] == users


def test_an_archive_is_for_one_class_path_and_replaces_those_of_the_same_spark(filled: Path, tmp_path: Path) -> None:
    file = archive_file(JAVA, our_jar(JAVA))
    source = tmp_path / "A.java"
    source.write_text("class A {}")
    other = archive_file(JAVA, our_jar(JAVA, tmp_path))
    assert other != file
    for archive in (file, other, filled / "spark-0123456789abcdef-another-place.jsa"):
        archive.touch()
    assert earlier_archives(file) == [other]


@pytest.mark.parametrize("content", [b"", b"no archive at all"])
def test_java_starts_in_silence_with_an_archive_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jsa").write_bytes(content)
    options = USE.format(tmp_path / "a.jsa").split()
    started = subprocess.run([str(JAVA), *options, "-version"], capture_output=True, check=True)
    plain = subprocess.run([str(JAVA), "-version"], capture_output=True, check=True)
    printed = started.stderr.replace(b", sharing", b""), started.stdout  # it says of itself whether it uses one
    assert printed == (plain.stderr.replace(b", sharing", b""), plain.stdout)


def test_an_archive_that_cannot_be_made_is_one_line(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.touch()  # no folder can be made there
    assert make_class_archive.main() == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_sparks_python_takes_pyspark_from_where_it_is_installed(tmp_path: Path) -> None:
    zips = [tmp_path / "python" / "lib" / name for name in ("pyspark.zip", "py4j-0.10-src.zip")]
    paths = [tmp_path / "a b", tmp_path / "pyspark.zip"]
    path = os.pathsep.join(map(str, [*zips, *paths]))
    environment = {**os.environ, "PYTHONPATH": path, "MONEYSTATE_PYTHON": sys.executable}
    command = [str(WORKER_PYTHON), "-c", "import os, sys; print(os.environ['PYTHONPATH'], *sys.argv[1:], sep='|')"]
    printed = subprocess.run([*command, "x y", "*"], env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.rstrip("\n").split("|") == [os.pathsep.join(map(str, paths)), "x y", "*"]


def test_sparks_python_is_ours_on_this_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MONEYSTATE_PYTHON", raising=False)
    assert worker_python("spark://host:7077") == sys.executable
    assert "MONEYSTATE_PYTHON" not in os.environ
    monkeypatch.setenv("MONEYSTATE_PYTHON", "is put back after the test")
    assert [worker_python(master) for master in ("local", "local[2]")] == [str(WORKER_PYTHON)] * 2
    assert os.environ["MONEYSTATE_PYTHON"] == sys.executable
