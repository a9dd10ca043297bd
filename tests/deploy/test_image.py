"""The Dockerfile and its entrypoint. No engine builds the image here: each test checks a part of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.deploy.rendered import KINDS, KUBERNETES, SPARK, rendered
from tests.job.spark_cluster import SPARK_HOME
from tests.job.warm import ROOT

DOCKERFILE = ROOT / "Dockerfile"
ENTRYPOINT = ROOT / "deploy" / "entrypoint.sh"
SITE = "/opt/moneystate/lib/python{}/site-packages"
EXECUTOR_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
VARIABLES = {
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "enrichment-exec-3",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1",
}
OPTIONS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def linted(file: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [ROOT / ".venv" / "bin" / "hadolint", "--no-color", file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_linter_has_nothing_to_say() -> None:
    done = linted(DOCKERFILE)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("USER 10001:10001", "USER root", "DL3002"),
        ("WORKDIR /src", "WORKDIR src", "DL3000"),
        ("COPY --from=build", "COPY --from=builder", "DL3022"),
        ("ENTRYPOINT [", "ENTRYPOINT ", "DL3025"),
        ("&& rm -rf /var/lib/apt/lists/*", "", "DL3009"),
        ("&& pip install --no-cache-dir", "&& cd x && pip install", "DL3042"),
    ],
)
def test_the_linter_tells_what_is_wrong(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = DOCKERFILE.read_text()
    assert old in text
    broken = tmp_path / "Dockerfile"
    broken.write_text(text.replace(old, new))
    done = linted(broken)
    assert done.returncode == 1
    assert told in done.stdout


def copied() -> list[str]:
    """What is copied from the project's folder."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_what_it_copies_is_there_and_nothing_else_is_sent_to_the_engine() -> None:
    assert all((ROOT / source).exists() for source in copied())
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(sent) == sorted(copied())
    assert os.access(ENTRYPOINT, os.X_OK)


def test_what_it_copies_makes_the_whole_wheel(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    for source in copied():
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, folder / source, ignore=ignored)
        else:
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, folder / source)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        "wheels",
        ".",
    ]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    (wheel,) = (folder / "wheels").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    listed = [
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "moneystate",
        "services",
        "state_tools",
        "avro",
    ]
    ours = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert {re.sub("^avro/", "moneystate/_avro/", name) for name in ours} <= names


def main_file(application: Any) -> Path:
    """The source of the file that the SparkApplication runs."""
    _, _, name = application["mainApplicationFile"].partition("/site-packages/")
    return ROOT / str(name)


def test_versions_and_places_are_those_of_the_project() -> None:
    text = DOCKERFILE.read_text()
    (python,) = set(re.findall(r"^FROM python:([\d.]+)-slim", text, re.MULTILINE))
    assert f"SPARK_HOME={SITE.format(python)}/pyspark" in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    image = f"moneystate:{project['version']}"
    assert f"--tag {image} " in text
    for kind in KINDS:
        assert image in "\n".join(map(str, rendered(kind)))
    (application,) = [one for one in rendered("operator") if one["kind"] == SPARK]
    its = application["spec"]
    assert (its["sparkVersion"], its["image"]) == (pyspark.__version__, image)
    assert its["mainApplicationFile"].startswith(f"local://{SITE.format(python)}/")
    assert main_file(its).is_file()


def test_the_main_file_runs_the_service_as_spark_starts_it(tmp_path: Path) -> None:
    """As a file: Python then looks for modules beside it first, where none may hide a package."""
    (application,) = [one for one in rendered("operator") if one["kind"] == SPARK]
    its = application["spec"]
    flags = ["--bootstrap-servers=127.0.0.1:9", f"--checkpoint={tmp_path / 'new'}", "--session-lookup=other"]
    done = subprocess.run(
        [sys.executable, main_file(its), *its["arguments"], *flags],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "--session-lookup: expected one of" in done.stderr


def test_pods_run_as_the_image_s_user() -> None:
    (user,) = re.findall(r"^USER (\d+):", DOCKERFILE.read_text(), re.MULTILINE)
    groups = {group for file in KUBERNETES.rglob("*.yaml") for group in re.findall(r"fsGroup: (\d+)", file.read_text())}
    assert groups == {user}


# The entrypoint, with programs that print their words


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """Variables with which java, moneystate and spark-submit are programs that print their words."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("java", "moneystate", "spark-submit"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "SPARK_HOME": str(tmp_path), **VARIABLES}


def words(programs: dict[str, str], *arguments: str) -> list[str]:
    done = subprocess.run([ENTRYPOINT, *arguments], env=programs, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_words_are_those_of_a_command(programs: dict[str, str]) -> None:
    assert words(programs, "serve", "--data", "a b") == ["moneystate", "serve", "--data", "a b"]


def test_spark_s_driver_starts(programs: dict[str, str]) -> None:
    name, *its = words(programs, "driver", "--class", "a.B", "x.py", "a b")
    assert name == "spark-submit"
    assert its[:4] == ["--deploy-mode", "client", "--conf", "spark.driver.bindAddress=10.0.0.1"]
    assert its[-4:] == ["--class", "a.B", "x.py", "a b"]


def test_spark_s_executor_starts(programs: dict[str, str]) -> None:
    options = {"SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-Xss1m", "SPARK_CLASSPATH": "/more/*"}
    name, *its = words({**programs, **options}, "executor")
    jars = f"/more/*:{programs['SPARK_HOME']}/jars/*"
    given = [word for option, variable in OPTIONS.items() for word in (option, VARIABLES[variable])]
    assert [name, *its] == ["java", "-Da=b c", "-Xss1m", "-Xmx1g", "-cp", jars, EXECUTOR_BACKEND, *given]


def test_without_a_variable_it_does_not_start(programs: dict[str, str]) -> None:
    del programs["SPARK_EXECUTOR_ID"]
    with pytest.raises(subprocess.CalledProcessError) as error:
        words(programs, "executor")
    assert "SPARK_EXECUTOR_ID" in error.value.stderr


def test_spark_has_the_class_its_options_and_the_variables() -> None:
    (jar,) = (SPARK_HOME / "jars").glob("spark-kubernetes_2.13-*.jar")
    with zipfile.ZipFile(jar) as archive:
        backend = archive.read(f"{EXECUTOR_BACKEND.replace('.', '/')}$.class")
        constants = archive.read("org/apache/spark/deploy/k8s/Constants$.class")
    assert [option for option in OPTIONS if option.encode() not in backend] == []
    used = {*re.findall(r"SPARK_[A-Z_]+(?<!_)", ENTRYPOINT.read_text())} - {"SPARK_HOME", "SPARK_JAVA_OPT"}
    assert used >= set(VARIABLES)
    assert [name for name in [*used, "SPARK_JAVA_OPT_"] if name.encode() not in constants] == []
