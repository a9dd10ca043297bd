"""Finds a Java on which Spark and the development broker can run.

Spark 4.2 needs Java 17 or later with the module `jdk.incubator.vector`. Reduced runtimes often lack it, and Spark then
dies at its start with a message that does not name the cause. So each candidate's modules are looked at before it is
used: in its file `release`, or, if it has none, by a start of 0.1 s.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from moneystate.errors import SetupError

MIN_MAJOR = 17
NEEDED_MODULE = "jdk.incubator.vector"
INSTALL_HINT = (
    f"install a JDK {MIN_MAJOR} or later, then try again. "
    "Debian: apt-get install openjdk-17-jdk-headless (from 13 on: openjdk-21-jdk-headless); "
    "Ubuntu: apt-get install openjdk-21-jdk-headless; Fedora: dnf install java-21-openjdk-devel; "
    "macOS: brew install openjdk@21. Or set JAVA_HOME to the folder of one that is installed elsewhere."
)

# The folders in which distributions, Homebrew and the macOS installers put a Java, as JAVA_HOME would name it.
USUAL_FOLDERS = (
    "/usr/lib/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
)

BASE = re.compile(r"^java\.base@((\d+)\S*)", re.MULTILINE)
OF_RELEASE = re.compile(r'^(JAVA_VERSION|MODULES)="(.+)"$', re.MULTILINE)
# A Java that hangs is rejected after this time.
PROBE_TIMEOUT_S = 30.0


def find_java(environ: Mapping[str, str] | None = None, usual_folders: tuple[str, ...] = USUAL_FOLDERS) -> Path:
    """The first suitable `java` of: JAVA_HOME, PATH, the usual folders.

    Raises SetupError, which names each candidate, why it was rejected, and what to install.
    """
    refused: list[str] = []
    for origin, java in _candidates(os.environ if environ is None else environ, usual_folders):
        problem = _problem(java)
        if problem is None:
            return java
        refused.append(f"{java} ({origin}) {problem}")
    problems = "; ".join(refused) or "none was found in JAVA_HOME, on PATH or in the usual folders"
    raise SetupError(
        f"Java {MIN_MAJOR} or later with the module {NEEDED_MODULE} is needed: {problems}.", do=INSTALL_HINT
    )


def java_version(java: Path) -> str:
    """The version of a Java that `find_java` has found."""
    base = BASE.search(_modules(java))
    return base[1] if base else "of an unknown version"


def java_home(java: Path) -> Path:
    """The folder to set as JAVA_HOME so that Spark's launcher uses this Java."""
    return java.resolve().parent.parent


def _candidates(environ: Mapping[str, str], usual_folders: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    seen: set[Path] = set()
    for origin, java in _places(environ, usual_folders):
        real = java.resolve()
        if real not in seen:
            seen.add(real)
            yield origin, java


def _places(environ: Mapping[str, str], usual_folders: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)
    for pattern in usual_folders:
        for folder in sorted(glob.glob(pattern)):
            java = Path(folder) / "bin" / "java"
            if java.exists():
                yield "usual folder", java


def _problem(java: Path) -> str | None:
    """Returns why this Java cannot be used; None: it can."""
    try:
        modules = _modules(java)
    except FileNotFoundError:
        return "does not exist"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    base = BASE.search(modules)
    if base is None:
        # Java 8 does not know the option; the stub that macOS puts on PATH knows nothing at all.
        return "is older than Java 9 or no Java at all"
    if int(base[2]) < MIN_MAJOR:
        return f"is Java {base[2]}"
    if not re.search(rf"^{re.escape(NEEDED_MODULE)}(@|\s|$)", modules, re.MULTILINE):
        return f"lacks the module {NEEDED_MODULE}"
    return None


def _modules(java: Path) -> str:
    """A line MODULE@VERSION for each; empty: it does not list them."""
    release = java_home(java) / "release"
    if os.access(java, os.X_OK) and release.exists():
        told = dict(OF_RELEASE.findall(release.read_text()))
        if told.keys() == {"JAVA_VERSION", "MODULES"}:
            return "".join(f"{module}@{told['JAVA_VERSION']}\n" for module in told["MODULES"].split())
    done = subprocess.run(
        [str(java), "--list-modules"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
    )
    return done.stdout if done.returncode == 0 else ""
