"""The wheel as a user gets it: complete, and able to run in an environment that has nothing else.

The packages that it needs are links to those of this environment, which are those of the lock; packages that only
development needs are absent. So the test needs no network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.demo.test_demo import environment, started_in
from tests.tar import unpack

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = {
    "moneystate": "moneystate",
    "services": "services",
    "state_tools": "state_tools",
    "avro": "moneystate/_avro",
}
UV: Final = Path(sys.executable).with_name("uv")
RUN_S: Final = 170


class Built(NamedTuple):
    wheel: Path
    source: Path
    bin: Path  # of an environment with the wheel


def run(*command: str | Path, folder: Path = ROOT, variables: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=RUN_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("wheel")
    run(UV, "build", "--no-build-isolation", "--offline", "--python", sys.executable, "--out-dir", folder, ROOT)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    place = folder / "environment"
    venv.create(place, symlinks=True)
    (packages,) = place.glob("lib/python*/site-packages")
    for needed in all_needed():
        for name in {str(file).partition("/")[0] for file in needed.files or () if not str(file).startswith("..")}:
            if not (packages / name).exists():
                (packages / name).symlink_to(str(needed.locate_file(name)))
    run(UV, "pip", "install", "--offline", "--no-index", "--no-deps", "--python", place / "bin" / "python", wheel)
    return Built(wheel, source, place / "bin")


def all_needed() -> Iterator[Distribution]:
    """What the project needs, directly or not, as installed here."""
    seen: set[str] = set()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(text) for text in project["dependencies"]]
    while asked:
        requirement = asked.pop()
        extras = requirement.extras or {""}
        key = f"{canonicalize_name(requirement.name)}{sorted(extras)}"
        if key in seen:
            continue
        seen.add(key)
        needed = distribution(requirement.name)
        yield needed
        more = [Requirement(text) for text in needed.requires or ()]
        asked += [one for one in more if not one.marker or any(one.marker.evaluate({"extra": e}) for e in extras)]


def committed() -> set[str]:
    """The files of a wheel, by their names in it."""
    files = run("git", "ls-files", *FOLDERS).splitlines()
    return {FOLDERS[name.partition("/")[0]] + "/" + name.partition("/")[2] for name in files}


def test_the_wheel_has_each_file_of_the_project_and_no_other(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == committed()
    for name in ("moneystate/py.typed", "moneystate/spark/worker-python", "moneystate/_avro/released.json"):
        assert name in names


def test_the_source_distribution_makes_the_same_wheel(built: Built, tmp_path: Path) -> None:
    unpack(built.source, tmp_path)
    (folder,) = tmp_path.iterdir()
    run(
        *(UV, "build", "--wheel", "--no-build-isolation", "--offline", "--python", sys.executable),
        *("--out-dir", tmp_path / "out", folder),
    )
    (again,) = (tmp_path / "out").glob("*.whl")
    assert again.read_bytes() == built.wheel.read_bytes()


def test_its_metadata_is_that_of_the_project(built: Built) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with ZipFile(built.wheel) as wheel:
        (place,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
        about = Parser().parsestr(wheel.read(f"{place}/METADATA").decode())
        license_text = wheel.read(f"{place}/licenses/LICENSE").decode()
    assert (about["Name"], about["Version"]) == ("moneystate", project["version"])
    assert about["License-Expression"] == "Apache-2.0"
    assert license_text == (ROOT / "LICENSE").read_text()
    assert about["Requires-Python"] == project["requires-python"]
    extras = project["optional-dependencies"]
    wanted = {Requirement(text) for text in project["dependencies"]}
    wanted |= {Requirement(f'{text}; extra == "{extra}"') for extra, texts in extras.items() for text in texts}
    assert {Requirement(text) for text in about.get_all("Requires-Dist", [])} == wanted


def test_it_runs_in_an_environment_that_has_nothing_else(built: Built, tmp_path: Path) -> None:
    folder, temporary = tmp_path / "empty", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    variables = {k: v for k, v in environment(temporary).items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    variables["PATH"] = f"{built.bin}{os.pathsep}{variables['PATH']}"
    run(sys.executable, "-m", "pip", "--python", built.bin / "python", "check", folder=folder)
    where = run(built.bin / "python", "-c", "import moneystate; print(moneystate.__file__)", folder=folder)
    assert Path(where).is_relative_to(built.bin.parent)
    program = built.bin / "moneystate"
    assert "moneystate" in run(program, "--help", folder=folder, variables=variables)
    run(program, "check", "sequencing", folder=folder, variables=variables)
    run(program, "schemas", "check", folder=folder, variables=variables)
    shown = run(program, "demo", "sequencing", folder=folder, variables=variables)
    assert "1 story held." in shown
    assert list(folder.iterdir()) == list(temporary.iterdir()) == []
    assert started_in(temporary) == []
