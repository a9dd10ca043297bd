"""A folder in a store, through Spark's own code in the JVM: with its credentials, and as atomic as Spark is there.

Files are written as Spark writes its checkpoint files (`CheckpointFileManager.createAtomic`): renamed into place, or
uploaded at once where `spark.sql.streaming.checkpointFileManagerClass` says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from moneystate.errors import CheckpointError, ConfigError
from moneystate.job.storage import jvm_settings
from moneystate.spark.storage import gateway

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*/.*")
_MISSING: Final = "java.io.FileNotFoundException"
_SPARKS: Final = "org.apache.spark."
ADVICE: Final = (
    "check the address and the credentials, and that Spark has the jars of this store (--spark-config spark.jars=...)."
)


class HadoopFolder:
    def __init__(self, uri: str, flag: str) -> None:
        if not _URI.fullmatch(uri):
            raise ConfigError(
                f"{flag} {uri}: expected a path, file:///FOLDER or SCHEME://HOST/FOLDER, found another address.",
                "give the folder with its scheme and host, such as hdfs://HOST/FOLDER or s3a://BUCKET/FOLDER.",
            )
        self.name = self.address = uri.rstrip("/")
        self._manager: Any = None

    def exists(self, name: str = "") -> bool:
        with self._errors():
            return bool(self._files().exists(self._path(name)))

    def read(self, name: str) -> bytes:
        with self._errors():
            stream = self._files().open(self._path(name))
            try:
                return bytes(gateway.jvm().org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, name: str, content: bytes) -> None:
        with self._errors():
            path = self._path(name)
            self._files().mkdirs(path.getParent())
            stream = self._files().createAtomic(path, True)
            try:
                stream.write(content)
            except BaseException:
                stream.cancel()
                raise
            stream.close()

    def remove(self, name: str) -> None:
        with self._errors():
            self._files().delete(self._path(name))

    def names(self, name: str) -> list[str]:
        try:
            with self._errors():
                return [status.getPath().getName() for status in self._files().list(self._path(name))]
        except FileNotFoundError:
            return []

    def check_writable(self) -> None:
        self.exists()  # the permission to write is known once something is written

    def driver_log(self, _: str) -> Path | None:
        return jvm_settings.log_file()

    def download(self, target: Path) -> None:
        """Copies the whole folder to `target`, which must not exist."""
        with self._errors():
            source = self._path("")
            self._file_system(source).copyToLocalFile(False, source, gateway.path(f"file://{target}"), True)

    def upload(self, name: str, source: Path) -> None:
        """Copies a file from this machine, replacing another one of its name. It may be seen before it is complete."""
        with self._errors():
            path = self._path(name)
            self._file_system(path).copyFromLocalFile(False, True, gateway.path(f"file://{source.absolute()}"), path)

    def _path(self, name: str) -> Any:
        return gateway.path(f"{self.address}/{name}" if name else self.address)

    def _files(self) -> Any:
        if self._manager is None:
            self._manager = gateway.checkpoint_files(self.address)
        return self._manager

    def _file_system(self, path: Any) -> Any:
        return path.getFileSystem(gateway.configuration())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as e:
            cause = _cause(e.java_exception)
            if cause.startswith(_MISSING):
                raise FileNotFoundError(f"there is no such file in {self.address}") from None
            raise self._unreachable(cause) from None
        except PySparkException as e:  # where a session runs, PySpark turns some of Java's errors into its own
            raise self._unreachable(str(e).partition("\n")[0]) from None

    def _unreachable(self, cause: str) -> CheckpointError:
        return CheckpointError(f"{self.address}: expected to reach this folder, but {cause}.", ADVICE)


def _cause(error: Any) -> str:
    """Returns what Java says, without Spark's own error around it."""
    while error.getClass().getName().startswith(_SPARKS) and error.getCause() is not None:
        error = error.getCause()
    return str(error).partition("\n")[0]
