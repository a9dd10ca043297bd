"""What a session adds to the user's settings, and the jar of our own that it starts the JVM with."""

from __future__ import annotations

import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.devbroker.java import find_java
from services.errors import SetupError
from services.spark.jvm.classes import LOCAL_CHECKPOINT_FILES, our_jar
from services.spark.session import CHECKPOINT_FILES, CLASS_PATH, with_our_classes

JAVA = find_java()


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MONEYSTATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


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


def test_a_job_on_this_machine_gets_our_checkpoint_files() -> None:
    got = with_our_classes({}, JAVA, local_checkpoint=True)
    assert got == {CHECKPOINT_FILES: LOCAL_CHECKPOINT_FILES, CLASS_PATH: str(our_jar(JAVA))}


def test_what_has_no_local_checkpoint_does_not() -> None:
    assert CHECKPOINT_FILES not in with_our_classes({}, JAVA, local_checkpoint=False)


def test_the_users_settings_are_kept() -> None:
    users = {CHECKPOINT_FILES: "some.other.Manager", CLASS_PATH: "/some/where.jar"}
    got = with_our_classes(users, JAVA, local_checkpoint=True)
    assert got[CHECKPOINT_FILES] == "some.other.Manager"
    assert got[CLASS_PATH] == f"/some/where.jar{os.pathsep}{our_jar(JAVA)}"


def test_without_our_jar_it_goes_on_with_sparks_and_says_so_in_one_line(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.touch()  # no folder can be made there
    assert with_our_classes({"a": "b"}, JAVA, local_checkpoint=True) == {"a": "b"}
    warning = capsys.readouterr().err
    assert warning.startswith("warning: ")
    assert warning.count("\n") == 1
