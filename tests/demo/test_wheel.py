"""The wheel as a user gets it: complete, and able to run in an environment that has nothing else.

The packages that it needs are links to those of this environment, which are those of the lock; packages that only
development needs are absent. So the test needs no network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
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


def without_a_compiler(path: str, folder: Path) -> str:
    """A folder of links to the programs of a PATH, but to no compiler. It is named `bin`: JAVA_HOME follows from it."""
    folder.mkdir()
    for place in path.split(os.pathsep):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if not re.search(r"(^|-)(cc|gcc|clang|c99|c89)(-\d+)?$", program.name) and not link.is_symlink():
                link.symlink_to(program)
    assert not any(shutil.which(name, path=str(folder)) for name in ("cc", "gcc", "clang"))
    return str(folder)


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


def is_compiled(name: str) -> bool:
    return name.endswith(sysconfig.get_config_var("EXT_SUFFIX"))


def listed_as_compiled() -> set[str]:
    """The modules that pyproject.toml has compiled, and the library that they share."""
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["moneystate"]["compiled"]["modules"]
    files = [file for folder, names in folders.items() for name in names for file in (ROOT / folder).glob(f"{name}.py")]
    names = {file.relative_to(ROOT).with_suffix("").as_posix() for file in files if file.name != "__init__.py"}
    return {name + sysconfig.get_config_var("EXT_SUFFIX") for name in names | {"moneystate_core__mypyc"}}


def test_the_wheel_has_each_file_of_the_project_and_the_compiled_core(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name for name in names if not is_compiled(name)} == committed()
    assert {name for name in names if is_compiled(name)} == listed_as_compiled()
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = re.sub("[-.]", "_", sysconfig.get_platform())
    assert built.wheel.name.endswith(f"-{python}-{python}-{platform}.whl") or sys.platform == "darwin"
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


def test_a_pure_wheel_is_for_every_python_and_says_what_it_lacks(built: Built, tmp_path: Path) -> None:
    variables = {**os.environ, "MONEYSTATE_PURE": "1"}
    command = (UV, "build", "--wheel", "--no-build-isolation", "--offline", "--python", sys.executable, "--out-dir")
    run(*command, tmp_path, ROOT, variables=variables)
    (wheel,) = tmp_path.glob("*-py3-none-any.whl")
    with ZipFile(wheel) as pure:
        assert {name for name in pure.namelist() if ".dist-info/" not in name} == committed()
        pure.extractall(tmp_path / "pure")
    packages = next(built.bin.parent.glob("lib/python*/site-packages"))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tmp_path / "pure", packages)))}
    printed = run(sys.executable, "-m", "moneystate.cli.main", "--version", folder=tmp_path, variables=variables)
    assert "(interpreted core, " in printed
    assert "install a wheel for this Python" in printed


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


@pytest.mark.long
def test_it_runs_in_an_environment_that_has_nothing_else(built: Built, tmp_path: Path) -> None:
    folder, temporary = tmp_path / "empty", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    variables = {k: v for k, v in environment(temporary).items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    variables["PATH"] = f"{built.bin}{os.pathsep}{without_a_compiler(variables['PATH'], tmp_path / 'bin')}"
    run(sys.executable, "-m", "pip", "--python", built.bin / "python", "check", folder=folder)
    where = run(built.bin / "python", "-c", "import moneystate; print(moneystate.__file__)", folder=folder)
    assert Path(where).is_relative_to(built.bin.parent)
    program = built.bin / "moneystate"
    assert run(program, "--version", folder=folder, variables=variables).endswith(" (compiled core)\n")
    assert "moneystate" in run(program, "--help", folder=folder, variables=variables)
    run(program, "check", "sequencing", folder=folder, variables=variables)
    run(program, "schemas", "check", folder=folder, variables=variables)
    shown = run(program, "demo", "sequencing", folder=folder, variables=variables)
    assert "1 story held." in shown
    assert list(folder.iterdir()) == list(temporary.iterdir()) == []
    assert started_in(temporary) == []
