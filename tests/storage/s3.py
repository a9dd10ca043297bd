"""A real S3 server (moto), on a free loopback port, as a process of its own.

`python -m tests.storage.s3` downloads the jars that Spark needs to reach it into the cache folder, unless they are
there.
"""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.error import URLError

from moneystate.devbroker.ivy import Artifact
from moneystate.devbroker.jars import cached_jars
from tests.ports import free_port
from tests.storage.hdfs import VERSION
from tests.waiting import until

SDK: Final = "2.35.4"  # that of hadoop-aws, in whose bundle there are 600 MB of other services
ARTIFACTS: Final = [
    Artifact("org.apache.hadoop", "hadoop-aws", VERSION, alone=True),
    # the newest that is published; it has one class that matters here
    Artifact("org.apache.spark", "spark-hadoop-cloud_2.13", "4.1.1", alone=True),
    Artifact("software.amazon.awssdk", "s3", SDK),
    Artifact("software.amazon.awssdk", "s3-transfer-manager", SDK),
    Artifact("software.amazon.awssdk", "sts", SDK),
    Artifact("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", alone=True),
]
SPARK_HAS: Final = ("slf4j-api", "commons-codec", "commons-logging")
BUCKET: Final = "tests"
START_S: Final = 60.0


def jars() -> list[Path]:
    told = f"what Spark needs for S3, for the tests (hadoop-aws {VERSION}, once, 17 MB)"
    folder = cached_jars(f"s3-{VERSION}", ARTIFACTS, told, lambda line: print(line, file=sys.stderr, flush=True))
    return [jar for jar in sorted(folder.glob("*.jar")) if not jar.name.startswith(SPARK_HAS)]


def as_flags(settings: dict[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--spark-config", f"{name}={value}")]


class S3:
    """Has one bucket, `address`. Leaving the `with` block kills it, and what it has stored is lost."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"s3a://{BUCKET}"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings, as docs/operations.md has them."""
        return self.settings_by_way_of(self.port)

    def settings_by_way_of(self, port: int) -> dict[str, str]:
        """For a job that reaches it through a proxy."""
        return {
            "spark.jars": ",".join(map(str, jars())),
            "spark.sql.streaming.checkpointFileManagerClass": (
                "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
            ),
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            # moto's server gives its "100 Continue" for the answer
            "spark.hadoop.fs.s3a.connection.expect.continue": "false",
            "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": "tests",
            "spark.hadoop.fs.s3a.secret.key": "tests",
        }

    @property
    def flags(self) -> list[str]:
        return as_flags(self.settings)

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with (self.folder / "log").open("ab") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder)
        until(self._has_bucket, self._log, START_S)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _has_bucket(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self._log()
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{BUCKET}", method="PUT")
            with urllib.request.urlopen(request, timeout=5):
                return True
        except URLError:
            return False

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]


if __name__ == "__main__":
    jars()
