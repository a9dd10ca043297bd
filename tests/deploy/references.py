"""What objects say about one another: each name has its object, and executors have what the driver has."""

from __future__ import annotations

import functools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.deploy.commands import Refused, parsed
from tests.deploy.rendered import EXECUTOR, SPARK, Object, Pod, pods, read, volumes
from tests.job.spark_cluster import SPARK_HOME

SETTINGS_IN = {
    "spark-kubernetes_2.13": "org/apache/spark/deploy/k8s/Config$.class",
    "spark-core_2.13": "org/apache/spark/internal/config/package$.class",
}
NAME = re.compile(rb"(..)(spark(?:\.\w+)+)", re.DOTALL)
TEMPLATE = "spark.kubernetes.executor.podTemplateFile"
IMAGE = "spark.kubernetes.container.image"
SETTINGS_OF_ROLES = ("cores", "instances", "memory", "memoryOverhead")
SHARED = ("checkpoints", "kafka")  # volumes that driver and executors have in the same place
MIB = {"m": 1, "mi": 1, "g": 1024, "gi": 1024}
OVERHEAD_MIB, OVERHEAD_OF_A_CORE_MIB = 512, 256  # docs/cluster.md
DRIVER_OVERHEAD_MIB = 1024


def reference_problems(objects: list[Object]) -> Iterator[str]:
    named = {(one["kind"], one["metadata"]["name"]) for one in objects}
    for pod in pods(objects):
        wanted = [("ServiceAccount", pod.spec.get("serviceAccountName"))]
        for volume in volumes(pod):
            wanted.append(("ConfigMap", volume.get("configMap", {}).get("name")))
            wanted.append(("PersistentVolumeClaim", volume.get("persistentVolumeClaim", {}).get("claimName")))
        yield from (
            f"{pod.name}: there is no {kind} {name}" for kind, name in wanted if name and (kind, name) not in named
        )
        yield from (f"{pod.name}: {problem}" for problem in _safety_problems(pod))
    for one in objects:
        if one["kind"] == "Service":
            yield from _service_problems(one, list(pods(objects)))


def _safety_problems(pod: Pod) -> Iterator[str]:
    if pod.spec.get("enableServiceLinks") is not False:
        yield "expected enableServiceLinks: false: a service moneystate-kafka would set MONEYSTATE_KAFKA_PORT"
    if not pod.spec.get("securityContext", {}).get("runAsNonRoot"):
        yield "expected runAsNonRoot: true"


def _service_problems(service: Object, all_pods: list[Pod]) -> Iterator[str]:
    name, selector = service["metadata"]["name"], service["spec"]["selector"].items()
    chosen = [pod for pod in all_pods if selector <= pod.labels.items()]
    if len(chosen) != 1:
        yield f"Service {name}: expected one kind of pod, found {len(chosen)}"
    for pod in chosen:
        ports = {port["name"]: port["containerPort"] for port in pod.container["ports"]}
        for port in service["spec"]["ports"]:
            if ports.get(port["targetPort"]) != port["port"]:
                yield f"Service {name}: {pod.name} has no port {port['targetPort']} {port['port']}"


# Spark


class Application(NamedTuple):
    driver: Pod
    executor: Pod
    images: set[str]  # of driver and executors
    settings: dict[str, str]


def application(objects: list[Object], folder: Path) -> Application:
    """Raises Refused."""
    by_name = {pod.name: pod for pod in pods(objects)}
    driver = by_name["enrichment"]
    for one in objects:
        if one["kind"] == SPARK:
            its = one["spec"]
            return Application(driver, by_name["enrichment, executor"], {its["image"]}, _settings_of_roles(its))
    settings = dict(text.split("=", 1) for text in parsed(driver, objects, folder)["spark_config"])
    if read(driver, objects, settings.get(TEMPLATE, "")) is None:
        raise Refused(f"{TEMPLATE}: no ConfigMap has the file {settings.get(TEMPLATE)}")
    (executor,) = [pod for name, pod in by_name.items() if name.endswith(EXECUTOR)]
    return Application(driver, executor, {driver.container["image"], settings[IMAGE]}, settings)


def _settings_of_roles(application: Object) -> dict[str, str]:
    """What the operator makes of the fields of driver and executors that have a setting's name."""
    its = ((role, *field) for role in ("driver", "executor") for field in application[role].items())
    return {f"spark.{role}.{name}": str(value) for role, name, value in its if name in SETTINGS_OF_ROLES}


def spark_problems(objects: list[Object], folder: Path) -> Iterator[str]:
    try:
        app = application(objects, folder)
    except Refused as e:
        yield str(e)
        return
    yield from (f"Spark has no setting {name}" for name in app.settings if name not in known_settings())
    if len(app.images) > 1:
        yield f"expected one image, found {', '.join(sorted(app.images))}"
    for name in SHARED:
        if _place(app.driver, name) != _place(app.executor, name):
            yield f"volume {name}: expected the same in driver and executors"
    yield from _memory_problems(app)


def _place(pod: Pod, name: str) -> list[Object]:
    return [one for one in [*volumes(pod), *pod.container["volumeMounts"]] if one["name"] == name]


def _memory_problems(app: Application) -> Iterator[str]:
    s = app.settings
    least = OVERHEAD_MIB + OVERHEAD_OF_A_CORE_MIB * int(s["spark.executor.cores"])
    if mib(s["spark.executor.memoryOverhead"]) < least:
        yield f"spark.executor.memoryOverhead: expected at least {least} MiB"
    limit = app.driver.container.get("resources", {}).get("limits", {}).get("memory")
    overhead = s.get("spark.driver.memoryOverhead")
    beside = mib(overhead) if overhead else mib(limit) - mib(s["spark.driver.memory"])
    if beside < DRIVER_OVERHEAD_MIB:
        yield f"driver: expected {DRIVER_OVERHEAD_MIB} MiB beside the heap, found {beside}"


def mib(text: str) -> int:
    number = text.rstrip("gmiGM")
    return int(number) * MIB[text[len(number) :].lower()]


@functools.cache
def known_settings() -> frozenset[str]:
    """The names in Spark's classes. Spark ignores a setting that it does not know."""
    texts = set()
    for jar, name in SETTINGS_IN.items():
        (path,) = (SPARK_HOME / "jars").glob(f"{jar}-*.jar")
        with zipfile.ZipFile(path) as archive:
            texts |= set(_strings(archive.read(name)))
    return frozenset(texts)


def _strings(java_class: bytes) -> Iterator[str]:
    """The names of settings among the constants of a class: each follows its length."""
    for match in NAME.finditer(java_class):
        if int.from_bytes(match[1]) == len(match[2]):
            yield match[2].decode()
