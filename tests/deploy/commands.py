"""What the pods' commands make of their words, variables and files: the real command line parses them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer.main
from typer.core import TyperGroup
from typer.exceptions import TyperException

from moneystate.cli import main, usage_errors, variables
from moneystate.cli.rule_flags import parted, rules_by_service
from moneystate.cli.service_jobs import services_of
from moneystate.errors import ConfigError
from moneystate.monitoring import LIVE, READY
from tests.deploy.rendered import VARIABLE, Object, Pod, environment, expanded, pods, read

ROOT: Any = typer.main.get_command(main.app)
CONFIG = "MONEYSTATE_CONFIG"
PROBES = {"startupProbe": LIVE, "livenessProbe": LIVE, "readinessProbe": READY}
LEAST_GRACE_S = {"run": 61, "lookup-worker": 21}  # docs/deploy.md says why


class Refused(Exception):
    pass


def parsed(pod: Pod, objects: list[Object], folder: Path) -> dict[str, Any]:
    """The values of the command's flags. Raises Refused, also for what its service does not have."""
    given = environment(pod)
    words = [expanded(word, given) for word in pod.words]
    unknown = [word for word in words if VARIABLE.search(word)]
    if unknown:
        raise Refused(f"{unknown[0]}: the container has no such variable")
    if warnings := variables.warnings(ROOT, ROOT, given):
        raise Refused(warnings[0])
    if CONFIG in given:
        text = read(pod, objects, given[CONFIG])
        if text is None:
            raise Refused(f"{CONFIG}: no ConfigMap has the file {given[CONFIG]}")
        file = folder / "config.toml"
        file.write_text(text)
        given[CONFIG] = str(file)
    with patch.dict(os.environ, given):
        try:
            return _parsed(words)
        except (ConfigError, TyperException) as e:
            raise Refused(usage_errors.told(e) if isinstance(e, TyperException) else str(e)) from None


def _parsed(words: list[str]) -> dict[str, Any]:
    context = ROOT.make_context("moneystate", list(words))
    command: Any = ROOT
    while isinstance(command, TyperGroup):
        left = [*context._protected_args, *context.args]
        name, command, left = command.resolve_command(context, left)
        context = command.make_context(name, left, parent=context)
    given = parted(context.params.get("words") or [context.params["service"]])
    rules_by_service(services_of(context, given.services), given.rules)
    return {name: value for name, value in context.params.items() if name != "config"}


def command_problems(objects: list[Object], folder: Path) -> Iterator[str]:
    for pod in pods(objects):
        if not pod.words:
            continue  # an executor
        try:
            flags = parsed(pod, objects, folder)
        except Refused as e:
            yield f"{pod.name}: {e}"
            continue
        yield from (f"{pod.name}: {problem}" for problem in _of_command(pod, flags))


def _of_command(pod: Pod, flags: dict[str, Any]) -> Iterator[str]:
    yield from _probe_problems(pod, flags)
    yield from _place_problems(pod, flags)
    least = LEAST_GRACE_S.get(pod.words[0]) or 2 * int(flags["grace"].removesuffix("s")) + 1
    if pod.spec.get("terminationGracePeriodSeconds", 30) < least:
        yield f"terminationGracePeriodSeconds: expected at least {least}"


def _probe_problems(pod: Pod, flags: dict[str, Any]) -> Iterator[str]:
    ports = {port["name"]: port["containerPort"] for port in pod.container.get("ports", [])}
    for name, path in PROBES.items():
        get = pod.container.get(name, {}).get("httpGet", {})
        if get.get("path") != path:
            yield f"{name}: expected the path {path}, found {get.get('path')}"
        if ports.get(get.get("port"), get.get("port")) != flags["metrics_port"]:
            yield f"{name}: expected the port of --metrics-port {flags['metrics_port']}, found {get.get('port')}"
    if flags["metrics_host"] != "0.0.0.0":
        yield f"--metrics-host {flags['metrics_host']}: the probes come from outside the pod"
    if "listen" in flags and ports.get("grpc") != int(flags["listen"].rpartition(":")[2]):
        yield f"--listen {flags['listen']}: expected the port grpc, {ports.get('grpc')}"


def _place_problems(pod: Pod, flags: dict[str, Any]) -> Iterator[str]:
    """Folders and files are on a volume: what a container writes elsewhere is lost with it."""
    for name, value in flags.items():
        path = str(value or "")
        if path.startswith("/") and pod.mounted(path) is None:
            yield f"--{name.replace('_', '-')} {path}: no volume is mounted there"


def secret_files(objects: list[Object], folder: Path) -> set[tuple[str, str]]:
    """The secrets and their keys that commands read, as files or variables."""
    wanted = set()
    for pod in pods(objects):
        for one in pod.container.get("env", []):
            if reference := one.get("valueFrom", {}).get("secretKeyRef"):
                wanted.add((reference["name"], reference["key"]))
        for value in parsed(pod, objects, folder).values() if pod.words else ():
            place = pod.mounted(str(value)) if str(value).startswith("/") else None
            if place is not None and "secret" in place[0]:
                wanted.add((place[0]["secret"]["secretName"], place[1]))
    return wanted
