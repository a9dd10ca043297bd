"""Connects PySpark to a JVM that starts or runs already."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.java_gateway import JavaGateway
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from moneystate.spark.jvm_process import JvmProcess

POLL_S: Final = 0.02
GATEWAY: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")  # how PySpark is told of a JVM that runs


def connected(jvm: JvmProcess) -> JavaGateway:
    """Waits until the JVM can be called. Raises PySparkRuntimeError if it ends before."""
    try:
        while not jvm.address.exists():
            if jvm.process.poll() is not None:
                raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            time.sleep(POLL_S)
        with jvm.address.open("rb") as file:
            port, secret = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
    finally:
        shutil.rmtree(jvm.folder, ignore_errors=True)
    with _in_environment(dict(zip(GATEWAY, (str(port), secret), strict=True))):
        gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
    gateway.proc = jvm.process
    return gateway


@contextmanager
def _in_environment(variables: dict[str, str]) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
