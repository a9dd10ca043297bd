"""A real HDFS with one data node, on free loopback ports: Hadoop's own minicluster, as a process of its own.

`python -m tests.storage.hdfs` downloads its jars into the cache folder, unless they are there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from moneystate.devbroker.ivy import Artifact
from moneystate.devbroker.jars import cached_jars
from moneystate.devbroker.java import find_java
from tests.ports import free_ports
from tests.waiting import until

SPARK_JARS: Final = Path(pyspark.__file__).parent / "jars"
# That of Spark's client
VERSION: Final = next(SPARK_JARS.glob("hadoop-client-api-*.jar")).stem.removeprefix("hadoop-client-api-")
ARTIFACTS: Final = [
    Artifact("org.apache.hadoop", "hadoop-client-minicluster", VERSION, alone=True),
    # Its test classes need these.
    Artifact("org.junit.jupiter", "junit-jupiter-api", "5.13.4", alone=True),
    Artifact("org.junit.platform", "junit-platform-commons", "1.13.4", alone=True),
    Artifact("org.opentest4j", "opentest4j", "1.3.0", alone=True),
    Artifact("org.assertj", "assertj-core", "3.27.6", alone=True),
]
START_S: Final = 120.0


def jars() -> Path:
    told = f"HDFS {VERSION} for the tests (once, 58 MB)"
    return cached_jars(f"hdfs-{VERSION}", ARTIFACTS, told, lambda line: print(line, file=sys.stderr, flush=True))


class Hdfs:
    """`address`: of its root. Leaving the `with` block kills it; `start` begins it again with what it has stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.web_port = free_ports(2)
        self.address = f"hdfs://127.0.0.1:{self.port}"
        self.flags: list[str] = []  # Spark needs no settings for it
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start("-format")
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self, *flags: str) -> None:
        ready = self.folder / "ready.xml"  # written once the name node and the data node are up
        ready.unlink(missing_ok=True)
        command = [str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", f"{jars()}/*:{SPARK_JARS}/*", f"-Dtest.build.data={self.folder}/data"]
        command += ["org.apache.hadoop.test.MiniDFSClusterManager", *flags, "-writeConfig", str(ready)]
        command += ["-nnport", str(self.port), "-httpport", str(self.web_port)]
        with (self.folder / "log").open("ab") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder, start_new_session=True
            )
        until(self._is_ready, self._log, START_S)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self._log()
        return (self.folder / "ready.xml").exists()

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]


if __name__ == "__main__":
    jars()
