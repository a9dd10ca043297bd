"""Kubernetes' schemas, and that of the Spark operator."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

from tests.deploy.rendered import EXECUTOR, SPARK, Object
from tests.job.warm import ROOT

VERSIONS = ("1.34", "1.37")  # the oldest that Kubernetes itself supports, and the newest
OPERATOR = "github.com/kubeflow/spark-operator/v2"
DEFINITION = "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml"


def schema_problems(objects: list[Object]) -> Iterator[str]:
    for one in [*objects, *_parts(objects)]:
        yield from _problems(json.dumps(one))


@functools.cache  # reading the schemas takes a while, and most objects are checked often
def _problems(text: str) -> list[str]:
    one = json.loads(text)
    where = f"{one['kind']} {one['metadata']['name']}"
    if one["kind"] == SPARK:
        errors = jsonschema.Draft202012Validator(operator_schema()).iter_errors(one)
        return [f"{where}: {'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]
    return [f"{where}: {message}" for version in VERSIONS for message in _of_kubernetes(one, version)]


def _of_kubernetes(one: Object, version: str) -> Iterator[str]:
    try:
        kubernetes_validate.validate(one, version, strict=True)
    except kubernetes_validate.ValidationError as e:
        yield f"{e.message} (Kubernetes {version})"


def _parts(objects: list[Object]) -> Iterator[Object]:
    """Pods inside of others, whose schemas say nothing about them."""
    for one in objects:
        if one["kind"] == SPARK:
            for role in ("driver", "executor"):
                about = {"name": f"{one['metadata']['name']}, {role}"}
                template = one["spec"][role]["template"]
                yield {"apiVersion": "v1", "kind": "PodTemplate", "metadata": about, "template": template}
        elif one["kind"] == "ConfigMap" and EXECUTOR in one["data"]:
            pod = yaml.safe_load(one["data"][EXECUTOR])
            yield {**pod, "metadata": {"name": EXECUTOR, **pod["metadata"]}}


@functools.cache
def operator_schema() -> Any:
    """As the API server uses it: unknown fields are errors, except where the definition keeps them."""
    command: list[str | Path] = [ROOT / ".venv" / "bin" / "go", "mod", "download", "-json", OPERATOR]
    folder = ROOT / "tests" / "deploy" / "tools" / "operator"
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    text = (Path(json.loads(done.stdout)["Dir"]) / DEFINITION).read_text()
    (version,) = yaml.load(text, yaml.CSafeLoader)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    closed = _closed(schema)
    closed["properties"]["metadata"] = {"type": "object"}  # Kubernetes' own
    return closed


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    its = {name: _closed(value) for name, value in schema.items()}
    is_object = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    if is_object and not schema.get("x-kubernetes-preserve-unknown-fields"):
        its["additionalProperties"] = False
    return its
