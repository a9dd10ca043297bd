"""The JVM's class data archive, which saves about a third of the processor time of a start.

Java can write the classes that a run has loaded and verified into a file (`-XX:ArchiveClassesAtExit`), which later runs
map into memory (`-XX:SharedArchiveFile`). An archive fits one Java and one class path. Java checks this itself, and
starts without the archive if it does not fit. `moneystate/spark/jvm/make_class_archive.py` makes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from moneystate.devbroker.jars import cache_root
from moneystate.spark.jvm.classes import spark_jars

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
USE = f"-XX:SharedArchiveFile={{}} -Xshare:auto {QUIET}"
MAKE = f"-XX:ArchiveClassesAtExit={{}} {QUIET}"


def archive_file(java: Path, our_jar: Path) -> Path:
    """The path of the archive for this Java and class path, whether or not it exists. Java itself compares times and
    sizes of the jars."""
    jars = [our_jar, *spark_jars()]
    release = java.resolve().parent.parent / "release"
    content = [str(java.resolve()), release.read_text() if release.exists() else ""]
    content += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    return cache_root() / f"{_place(jars[-1])}{_digest(content)}.jsa"


def archive_options(java: Path, our_jar: Path) -> str:
    """The JVM's options to start with the archive; empty: there is none."""
    file = archive_file(java, our_jar)
    return USE.format(file) if file.exists() else ""


def earlier_archives(file: Path) -> list[Path]:
    """Archives of the same Spark folder that are obsolete, because its jars or the Java have changed."""
    place = file.name.rpartition("-")[0]
    return [other for other in file.parent.glob(f"{place}-*.jsa") if other != file]


def _place(jar: Path) -> str:
    return f"spark-{_digest([str(jar.parent)])}-"


def _digest(content: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(content).encode()).hexdigest()[:16]
