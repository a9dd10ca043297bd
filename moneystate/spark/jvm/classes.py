"""Compiles the Java sources of this folder into a jar on first use, and keeps it in the user's cache folder.

The compiler is Janino, which Spark has among its jars for the code that it generates: a JRE is enough.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import subprocess
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

from moneystate.devbroker.jars import cache_root
from moneystate.errors import SetupError

SOURCES = Path(__file__).parent
COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"  # the command line that comes with Janino
COMPILER_JARS = ("janino-*.jar", "commons-compiler-*.jar")
COMPILE_TIMEOUT_S = 60.0  # it takes 1 s
JAR_TIME_S = 315_532_800  # one and the same, 1980: the class archive holds for a jar of one size and time
LOCAL_CHECKPOINT_FILES = "moneystate.LocalCheckpointFiles"


def spark_home() -> Path:
    """The folder of the Spark that would be started, as PySpark's module finds it, which runs without PySpark."""
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    finder = runpy.run_path(str(Path(package.origin).with_name("find_spark_home.py")))
    return Path(finder["_find_spark_home"]())


def spark_jars() -> list[Path]:
    """The jars of the Spark that would be started. Their names carry its version."""
    return sorted((spark_home() / "jars").glob("*.jar"))


def our_jar(java: Path, sources: Path = SOURCES) -> Path:
    """The jar to put on the class path; made the first time, in 1 s. Raises SetupError.

    Its name is made of all that went into it. It appears by one rename: of two processes that make it at once, the
    later one puts the same in its place.
    """
    files, jars = sorted(sources.glob("*.java")), spark_jars()
    content = [jar.name.encode() for jar in jars] + [file.read_bytes() for file in files]
    key = hashlib.sha256(b"\0".join(content)).hexdigest()[:16]
    jar = cache_root() / f"moneystate-{key}.jar"
    try:
        if not jar.exists():
            cache_root().mkdir(parents=True, exist_ok=True)
            _make(java, files, jars, jar)
    except OSError as error:
        raise SetupError(
            f"The cache folder {cache_root()} cannot be written: {error}.", do="set MONEYSTATE_CACHE"
        ) from error
    return jar


def _make(java: Path, files: list[Path], jars: list[Path], jar: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{jar.stem}-", dir=jar.parent) as work:
        classes, made = Path(work) / "classes", Path(work) / jar.name
        classes.mkdir()
        _compile(java, files, jars, classes)
        with zipfile.ZipFile(made, "w") as out:
            for file in sorted(classes.rglob("*.class")):
                out.writestr(zipfile.ZipInfo(str(file.relative_to(classes))), file.read_bytes())
        os.utime(made, (JAR_TIME_S, JAR_TIME_S))
        made.replace(jar)


def _compile(java: Path, files: list[Path], jars: list[Path], into: Path) -> None:
    compiler = [jar for jar in jars if any(jar.match(pattern) for pattern in COMPILER_JARS)]
    command = [str(java), "-XX:TieredStopAtLevel=1", "-cp", _path_of(compiler), COMPILER]
    command += ["-g", "-d", str(into), "-classpath", _path_of(jars), *map(str, files)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"Janino was not done after {COMPILE_TIMEOUT_S:.0f} s.", do="try again") from None
    if done.returncode != 0:
        compiler_output = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise SetupError(f"Janino could not compile {files[0].parent}: {compiler_output[0]}", do="report it")


def _path_of(jars: list[Path]) -> str:
    return os.pathsep.join(map(str, jars))
