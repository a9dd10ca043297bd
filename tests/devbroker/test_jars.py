"""Fetching jars: the user's mirror is asked, a failure leaves nothing behind, two at once fetch once.

Ivy is the real one; the mirrors are small Maven repositories in a folder, so nothing leaves this machine.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from moneystate.devbroker import ivy, jars
from moneystate.devbroker.ivy import Artifact, retrieve
from moneystate.errors import SetupError

OWN = Artifact("org.example", "app", "1.0")
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>{name}</artifactId>
<version>1.0</version><dependencies>{dependencies}</dependencies></project>"""
NEEDS_LIB = "<dependency><groupId>org.example</groupId><artifactId>lib</artifactId><version>1.0</version></dependency>"


@pytest.fixture
def mirror(tmp_path: Path) -> str:
    """The address of a repository with `app`, which needs `lib`."""
    for name, dependencies in (("app", NEEDS_LIB), ("lib", "")):
        folder = tmp_path / "mirror" / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        (folder / f"{name}-1.0.pom").write_text(POM.format(name=name, dependencies=dependencies))
        (folder / f"{name}-1.0.jar").write_bytes(b"jar of " + name.encode())
    return (tmp_path / "mirror").as_uri()


@pytest.fixture(autouse=True)
def bare_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MONEYSTATE_CACHE", str(tmp_path / "cache"))
    for name in ("MONEYSTATE_IVY_SETTINGS", "DEFAULT_ARTIFACT_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()


def fetched(tmp_path: Path) -> set[str]:
    retrieve([OWN], tmp_path / "jars", tmp_path / "work")
    return {jar.name for jar in (tmp_path / "jars").iterdir()}


def test_spark_repository_variable_is_honoured(tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", mirror)
    assert fetched(tmp_path) == {"app-1.0.jar", "lib-1.0.jar"}


def test_maven_mirror_of_central_is_honoured(tmp_path: Path, mirror: str) -> None:
    settings = tmp_path / "home" / ".m2" / "settings.xml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        '<settings xmlns="urn:any-version-of-the-settings"><mirrors>'
        "<mirror><id>a</id><mirrorOf>internal</mirrorOf><url>file:///nowhere</url></mirror>"
        "<mirror><id>b</id><mirrorOf>*,!central</mirrorOf><url>file:///nowhere</url></mirror>"
        f"<mirror><id>c</id><mirrorOf>*,!internal</mirrorOf><url>{mirror}</url></mirror></mirrors></settings>"
    )
    assert fetched(tmp_path) == {"app-1.0.jar", "lib-1.0.jar"}


def test_ivy_settings_of_the_user_are_honoured(tmp_path: Path, mirror: str) -> None:
    settings = tmp_path / "home" / ".ivy2" / "ivysettings.xml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers>'
        f'<ibiblio name="own" m2compatible="true" root="{mirror}"/></resolvers></ivysettings>'
    )
    assert fetched(tmp_path) == {"app-1.0.jar", "lib-1.0.jar"}


def test_named_settings_come_before_all_else(tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "named.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers>'
        f'<ibiblio name="own" m2compatible="true" root="{mirror}"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv("MONEYSTATE_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "file:///nowhere")
    assert fetched(tmp_path) == {"app-1.0.jar", "lib-1.0.jar"}


def test_what_cannot_be_fetched_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", (tmp_path / "empty").as_uri())
    monkeypatch.setattr(jars, "ARTIFACTS", [OWN])
    with pytest.raises(SetupError, match=r"org\.example#app"):
        jars.kafka_jars()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [f"kafka-{jars.KAFKA_VERSION}.lock"]


def test_the_folder_is_whole_and_fetched_once_by_two_at_once(
    tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", mirror)
    monkeypatch.setattr(jars, "ARTIFACTS", [OWN])
    told: list[str] = []
    folders: list[Path] = []
    threads = [threading.Thread(target=lambda: folders.append(jars.kafka_jars(told.append))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    expected = tmp_path / "cache" / f"kafka-{jars.KAFKA_VERSION}"
    assert folders == [expected, expected]
    assert len(told) == 1
    assert {jar.name for jar in expected.iterdir()} == {"app-1.0.jar", "lib-1.0.jar"}


def test_a_cache_folder_that_cannot_be_written_is_a_setup_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MONEYSTATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(SetupError):
        jars.kafka_jars()


def test_proxies_of_the_surroundings_reach_java() -> None:
    environ = {"HTTPS_PROXY": "http://proxy.example:3128", "no_proxy": "localhost, .example"}
    assert ivy._proxy_options(environ) == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.example",
    ]
