"""The manifests of deploy/kubernetes: each fits Kubernetes' schemas and our command line. No cluster runs them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moneystate.serving.options import Security
from moneystate.serving.tls import is_guarded
from tests.deploy.commands import command_problems, parsed, secret_files
from tests.deploy.references import known_settings, reference_problems, spark_problems
from tests.deploy.rendered import EXECUTOR, KINDS, Object, pods, rendered
from tests.deploy.schemas import schema_problems
from tests.job.warm import ROOT

PAGE = ROOT / "docs" / "deploy.md"
SECRET = re.compile(r"kubectl create secret (generic|tls) ([\w-]+)((?:[^\n]*\\\n)*[^\n]*)")
KEY = re.compile(r"--from-(?:file|literal)=([\w.-]+)")


@pytest.fixture(scope="module")
def trees() -> dict[str, list[Object]]:
    return {kind: rendered(kind) for kind in KINDS}


def problems(objects: list[Object], folder: Path) -> Iterator[str]:
    yield from schema_problems(objects)
    yield from reference_problems(objects)
    yield from command_problems(objects, folder)
    yield from spark_problems(objects, folder)


@pytest.mark.parametrize("kind", KINDS)
def test_manifests_have_no_problem(kind: str, trees: dict[str, list[Object]], tmp_path: Path) -> None:
    assert list(problems(trees[kind], tmp_path)) == []
    assert {pod.words[0] for pod in pods(trees[kind]) if pod.words} == {"run", "serve", "lookup-worker"}


def test_the_example_changes_what_it_says(trees: dict[str, list[Object]], tmp_path: Path) -> None:
    objects = trees["example"]
    assert {one["metadata"]["namespace"] for one in objects} == {"payments"}
    assert {pod.container.get("image") for pod in pods(objects)} == {"images.example.com/moneystate:0.1.0", None}
    (job,) = [pod for pod in pods(objects) if pod.name == "enrichment"]
    assert parsed(job, objects, tmp_path)["schema_registry"] == "http://schemas.example.com"


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_creates_each_secret_that_commands_read(
    kind: str, trees: dict[str, list[Object]], tmp_path: Path
) -> None:
    created = set()
    for how, name, rest in SECRET.findall(PAGE.read_text()):
        keys = ["tls.crt", "tls.key"] if how == "tls" else KEY.findall(rest)
        created |= {(name, key) for key in keys}
    assert secret_files(trees[kind], tmp_path) <= created


def test_the_query_server_would_listen(trees: dict[str, list[Object]], tmp_path: Path) -> None:
    """It refuses addresses that others reach, unless it knows who they are."""
    (pod,) = [pod for pod in pods(trees["job"]) if pod.name == "replica"]
    flags = parsed(pod, trees["job"], tmp_path)
    names = {"tls_cert": "tls_cert", "tls_key": "tls_key", "client_ca": "tls_ca", "token_key": "token_key"}
    security = Security(**{field: flags[flag] for field, flag in names.items()})
    assert is_guarded(security)
    assert security.token_key


# Each check can fail: a change that breaks the manifests, and what is then told of it


def by(objects: list[Object], kind: str, name: str) -> Any:
    (only,) = [one for one in objects if one["kind"] == kind and one["metadata"]["name"].startswith(name)]
    return only


def spec(objects: list[Object], name: str = "enrichment", kind: str = "StatefulSet") -> Any:
    return by(objects, kind, name)["spec"]["template"]["spec"]


def container(objects: list[Object], name: str = "enrichment", kind: str = "StatefulSet") -> Any:
    return spec(objects, name, kind)["containers"][0]


def argument(objects: list[Object], old: str, new: str) -> None:
    its = container(objects)
    assert any(old in word for word in its["args"])
    its["args"] = [word.replace(old, new) for word in its["args"]]


def config(objects: list[Object], old: str, new: str) -> None:
    data = by(objects, "ConfigMap", "moneystate")["data"]
    assert old in data["moneystate.toml"]
    data["moneystate.toml"] = data["moneystate.toml"].replace(old, new)


def executor(objects: list[Object], old: str, new: str) -> None:
    data = by(objects, "ConfigMap", "executor")["data"]
    assert old in data[EXECUTOR]
    data[EXECUTOR] = data[EXECUTOR].replace(old, new)


def driver(objects: list[Object]) -> Any:
    return by(objects, "SparkApplication", "enrichment")["spec"]["driver"]


Break = Callable[[list[Object]], Any]
BROKEN: list[tuple[str, Break, str]] = [
    # Kubernetes' schemas
    ("job", lambda o: by(o, "StatefulSet", "replica")["spec"].update(replica=3), "StatefulSet replica: "),
    ("job", lambda o: by(o, "Deployment", "lookup")["spec"].update(replicas="2"), "'2' is not"),
    ("job", lambda o: container(o)["livenessProbe"].update(period=1), "'period' was unexpected"),
    ("job", lambda o: executor(o, "mountPath", "path"), f"Pod {EXECUTOR}: "),
    # the operator's, and Kubernetes' for the pods in it
    ("operator", lambda o: driver(o).update(memoryOverHead="1g"), "'memoryOverHead' was unexpected"),
    ("operator", lambda o: driver(o).update(cores="1"), "driver.cores: '1' is not of type 'integer'"),
    ("operator", lambda o: driver(o)["template"]["spec"].update(volume=[]), "PodTemplate enrichment, driver: "),
    # names
    ("job", lambda o: spec(o).update(serviceAccountName="other"), "there is no ServiceAccount other"),
    ("job", lambda o: by(o, "PersistentVolumeClaim", "ch")["metadata"].update(name="x"), "PersistentVolumeClaim ch"),
    ("operator", lambda o: by(o, "ConfigMap", "m")["metadata"].update(name="m"), "there is no ConfigMap moneystate-"),
    ("job", lambda o: by(o, "Service", "replica")["spec"]["selector"].update(app="x"), "expected one kind of pod"),
    ("job", lambda o: by(o, "Service", "enrichment")["spec"]["ports"][0].update(port=1), "has no port metrics 1"),
    ("job", lambda o: spec(o).pop("enableServiceLinks"), "expected enableServiceLinks: false"),
    ("job", lambda o: executor(o, "runAsNonRoot: true", "runAsNonRoot: false"), "expected runAsNonRoot"),
    # the command line
    ("job", lambda o: argument(o, "run", "enrich"), "enrich"),
    ("job", lambda o: argument(o, "enrichment", "enrich"), "enrich: expected MODULE:SERVICE"),
    ("job", lambda o: container(o, "lookup", "Deployment")["args"].pop(), "SERVICE"),
    ("job", lambda o: argument(o, "--master", "--marster"), "--marster"),
    ("job", lambda o: argument(o, "$(POD_NAME)", "$(POD)"), "the container has no such variable"),
    ("job", lambda o: container(o, "replica")["args"].append("--workers=65"), "--workers"),
    ("job", lambda o: container(o)["env"].append({"name": "MONEYSTATE_BOUNDS", "value": "1s"}), "MONEYSTATE_BOUNDS"),
    ("job", lambda o: container(o)["env"].pop(0), "expected --checkpoint"),
    # its file
    ("job", lambda o: config(o, "metrics-port", "metric-port"), "[run] metric-port: expected a flag"),
    ("job", lambda o: config(o, "[serve]", "[server]"), "'server'"),
    ("job", lambda o: config(o, '"topic"', '"http"'), "session_lookup: expected one of"),
    ("job", lambda o: container(o)["env"][0].update(value="/etc/moneystate/x.toml"), "no ConfigMap has the file"),
    # what probes and clients reach
    ("job", lambda o: container(o)["readinessProbe"]["httpGet"].update(path="/livez"), "expected the path /readyz"),
    ("job", lambda o: container(o)["livenessProbe"]["httpGet"].update(port=9101), "expected the port of"),
    ("job", lambda o: config(o, "metrics-port = 9100", "metrics-port = 9101"), "expected the port of --metrics-port"),
    ("job", lambda o: config(o, 'metrics-host = "0.0.0.0"', ""), "--metrics-host 127.0.0.1"),
    ("job", lambda o: config(o, "8484", "8485"), "--listen 0.0.0.0:8485"),
    ("operator", lambda o: driver(o)["template"]["spec"]["containers"][0].pop("livenessProbe"), "livenessProbe: "),
    # time to stop, and places
    ("job", lambda o: spec(o).update(terminationGracePeriodSeconds=30), "expected at least 61"),
    ("job", lambda o: config(o, "[serve]", '[serve]\ngrace = "20s"'), "expected at least 41"),
    ("job", lambda o: config(o, "/var/lib/moneystate/index", "/index"), "--index /index: no volume"),
    # Spark
    ("job", lambda o: argument(o, "executor.podTemplateFile", "executor.template"), "executor.podTemplateFile: "),
    ("job", lambda o: argument(o, "executor/executor.yaml", "executor/x.yaml"), "no ConfigMap has the file"),
    ("job", lambda o: argument(o, "executor.instances", "executor.instance"), "Spark has no setting"),
    ("job", lambda o: argument(o, "moneystate:0.1.0", "moneystate:0.2.0"), "expected one image"),
    ("job", lambda o: argument(o, "executor.cores=2", "executor.cores=4"), "expected at least 1536 MiB"),
    ("job", lambda o: container(o)["resources"]["limits"].update(memory="2Gi"), "beside the heap, found 0"),
    ("job", lambda o: executor(o, "/var/lib/moneystate/checkpoints", "/checkpoints"), "volume checkpoints: "),
    ("operator", lambda o: driver(o).update(memoryOverhead="512m"), "expected 1024 MiB beside the heap, found 512"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "told"), BROKEN, ids=[told for _, _, told in BROKEN])
def test_what_is_wrong_is_told(
    kind: str, change: Break, told: str, trees: dict[str, list[Object]], tmp_path: Path
) -> None:
    objects = copy.deepcopy(trees[kind])
    change(objects)
    assert any(told in problem for problem in problems(objects, tmp_path))


def test_spark_s_settings_are_read_from_its_classes() -> None:
    assert {"spark.executor.memoryOverhead", "spark.kubernetes.namespace"} <= known_settings()
    assert "spark.executor.memoryOverHead" not in known_settings()
