"""The manifests of deploy/kubernetes as `kubectl apply -k` sends them, and what is in their pods."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from tests.job.warm import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"
KUSTOMIZE = ROOT / ".venv" / "bin" / "kustomize"
KINDS = ("job", "operator", "example")
SPARK = "SparkApplication"
EXECUTOR = "executor.yaml"
WITH_PODS = ("StatefulSet", "Deployment")
VARIABLE = re.compile(r"\$\((\w+)\)")

Object = dict[str, Any]


class Pod(NamedTuple):
    """The template of a pod. `words`: of its command, with variables. Empty: Spark adds them."""

    name: str
    labels: Mapping[str, str]
    spec: Object
    words: list[str]

    @property
    def container(self) -> Object:
        (only,) = self.spec["containers"]
        return dict(only)

    def mounted(self, path: str) -> tuple[Object, str] | None:
        """The volume that has the file, and the file's name there."""
        for mount in self.container.get("volumeMounts", []):
            if path.startswith(mount["mountPath"] + "/") or path == mount["mountPath"]:
                (volume,) = [v for v in volumes(self) if v["name"] == mount["name"]]
                return volume, path.removeprefix(mount["mountPath"]).lstrip("/")
        return None


def rendered(kind: str) -> list[Object]:
    done = subprocess.run([KUSTOMIZE, "build", KUBERNETES / kind], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def pods(objects: list[Object]) -> Iterator[Pod]:
    for one in objects:
        name, spec = one["metadata"]["name"], one.get("spec", {})
        if one["kind"] in WITH_PODS:
            yield _pod(name, spec["template"])
        elif one["kind"] == SPARK:
            yield _pod(name, spec["driver"]["template"], spec.get("arguments", []))
            yield _pod(f"{name}, executor", spec["executor"]["template"])
        elif one["kind"] == "ConfigMap" and EXECUTOR in one["data"]:
            yield _pod(f"{name}, {EXECUTOR}", yaml.safe_load(one["data"][EXECUTOR]))


def _pod(name: str, template: Object, words: list[str] | None = None) -> Pod:
    spec = template["spec"]
    return Pod(name, template["metadata"].get("labels", {}), spec, words or spec["containers"][0].get("args", []))


def volumes(pod: Pod) -> list[Object]:
    """With those of a StatefulSet's claims, which are there under their names."""
    own = list(pod.spec.get("volumes", []))
    named = {volume["name"] for volume in own}
    mounts = [mount["name"] for mount in pod.container.get("volumeMounts", [])]
    return own + [{"name": name} for name in mounts if name not in named]


def environment(pod: Pod) -> dict[str, str]:
    """The container's variables. What the cluster fills in is `other`."""
    given: dict[str, str] = {}
    for one in pod.container.get("env", []):
        given[one["name"]] = expanded(one["value"], given) if "value" in one else _filled_in(one["valueFrom"])
    return given


def _filled_in(source: Object) -> str:
    return "other:1" if "secretKeyRef" in source else "other"


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """As Kubernetes does it: an unknown variable stays as it is."""
    return VARIABLE.sub(lambda match: variables.get(match[1], match[0]), text)


def config_maps(objects: list[Object]) -> dict[str, dict[str, str]]:
    return {one["metadata"]["name"]: one["data"] for one in objects if one["kind"] == "ConfigMap"}


def read(pod: Pod, objects: list[Object], path: str) -> str | None:
    """A file of a ConfigMap in the pod; None: there is no such file."""
    place = pod.mounted(path)
    if place is None or "configMap" not in place[0]:
        return None
    return config_maps(objects).get(place[0]["configMap"]["name"], {}).get(place[1])
