"""Which Java is taken, and what is said when none will do. The Javas here are scripts that print a module list."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.devbroker.java import INSTALL_HINT, find_java, java_home, java_version
from moneystate.errors import SetupError

SUITABLE = "java.base@17.0.15\njdk.incubator.vector@17.0.15\n"
TOO_OLD = "java.base@11.0.2\njdk.incubator.vector@11.0.2\n"
WITHOUT_MODULE = "java.base@21.0.1\njava.logging@21.0.1\n"


def fake_java(home: Path, modules: str, exit_code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat <<'END'\n{modules}END\nexit {exit_code}\n")
    java.chmod(0o755)
    return java


def environ(java_home: Path | None = None, on_path: Path | None = None) -> dict[str, str]:
    variables = {"PATH": str(on_path.parent) if on_path else ""}
    return variables | ({"JAVA_HOME": str(java_home)} if java_home else {})


def test_java_home_comes_before_path_and_usual_folders(tmp_path: Path) -> None:
    chosen = fake_java(tmp_path / "a", SUITABLE)
    on_path = fake_java(tmp_path / "b", SUITABLE)
    fake_java(tmp_path / "jvm" / "c", SUITABLE)
    assert find_java(environ(tmp_path / "a", on_path), (str(tmp_path / "jvm" / "*"),)) == chosen


def test_path_comes_before_usual_folders(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "b", SUITABLE)
    fake_java(tmp_path / "jvm" / "c", SUITABLE)
    assert find_java(environ(on_path=on_path), (str(tmp_path / "jvm" / "*"),)) == on_path


@pytest.mark.parametrize(("modules", "exit_code"), [(TOO_OLD, 0), (WITHOUT_MODULE, 0), ("", 1)])
def test_unsuitable_java_home_is_passed_over(tmp_path: Path, modules: str, exit_code: int) -> None:
    fake_java(tmp_path / "a", modules, exit_code)
    usual = fake_java(tmp_path / "jvm" / "c", SUITABLE)
    assert find_java(environ(tmp_path / "a"), (str(tmp_path / "jvm" / "*"),)) == usual


def test_no_java_at_all_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SetupError) as refused:
        find_java(environ(), (str(tmp_path / "jvm" / "*"),))
    assert INSTALL_HINT in str(refused.value)
    for tool in ("apt-get install", "dnf install", "brew install"):
        assert tool in INSTALL_HINT


def test_a_file_release_that_lists_the_modules_is_believed(tmp_path: Path) -> None:
    """And saves a start of Java."""
    whole, without, old = (fake_java(tmp_path / name, "", exit_code=1) for name in ("whole", "without", "old"))
    (tmp_path / "whole" / "release").write_text('JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector"\n')
    (tmp_path / "without" / "release").write_text('JAVA_VERSION="21.0.1"\nMODULES="java.base java.logging"\n')
    (tmp_path / "old" / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    assert find_java(environ(tmp_path / "whole"), ()) == whole
    assert java_version(whole) == "17.0.15"
    with pytest.raises(SetupError, match="lacks the module"):
        find_java(environ(tmp_path / "without", without), ())
    with pytest.raises(SetupError, match="older than Java 9"):
        find_java(environ(tmp_path / "old", old), ())


def test_refusal_names_each_java_and_its_fault(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "a", TOO_OLD)
    cut_down = fake_java(tmp_path / "b", WITHOUT_MODULE)
    java_8 = fake_java(tmp_path / "jvm" / "c", "", exit_code=1)
    with pytest.raises(SetupError) as refused:
        find_java(environ(tmp_path / "a", cut_down), (str(tmp_path / "jvm" / "*"),))
    message = str(refused.value)
    assert f"{old} (JAVA_HOME) is Java 11" in message
    assert f"{cut_down} (PATH) lacks the module" in message
    assert str(java_8) in message


def test_java_home_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="does not exist"):
        find_java(environ(tmp_path / "nowhere"), ())


def test_the_same_java_is_asked_once(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "a", TOO_OLD)
    with pytest.raises(SetupError) as refused:
        find_java(environ(tmp_path / "a", java), ())
    assert str(refused.value).count(str(java)) == 1


def test_java_home_is_found_through_links(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk", SUITABLE)
    link = tmp_path / "bin" / "java"
    link.parent.mkdir()
    link.symlink_to(java)
    assert java_home(link) == tmp_path / "jdk"


def test_the_real_one_is_found_here() -> None:
    assert find_java().exists()
