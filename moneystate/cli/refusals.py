"""What `run` and `serve` would refuse of a service, before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from moneystate.errors import MoneystateError
from moneystate.runtime.folders import folder_of
from moneystate.runtime.job import plain_job, plain_service
from moneystate.runtime.plans import plan_of
from moneystate.runtime.replica_model import ReplicaModel
from moneystate.schemas.services import findings_of
from moneystate.schemas.tree import RELEASED
from moneystate.serving.state.contract import Contract


def refusals(reference: str) -> list[str]:
    """A line for each problem of the service with its declared rules. A service that is not released yet is none."""
    return list(dict.fromkeys([*_refused(reference), *_schema_problems(reference)]))


def _refused(reference: str) -> Iterator[str]:
    parts: list[Callable[[], Any]] = [
        lambda: plain_job(reference, {}),
        lambda: plain_service(reference).state.versions,
        lambda: ReplicaModel(reference).layout,
        lambda: Contract(plan_of(reference)),
    ]
    for part in parts:
        try:
            part()
        except MoneystateError as e:
            yield str(e)


def _schema_problems(reference: str) -> Iterator[str]:
    """Finds released schemas that were edited, and records that differ from their release."""
    if not (folder_of(reference) / RELEASED).exists():
        return
    try:
        findings = findings_of(reference)
    except MoneystateError as e:
        yield str(e)
        return
    for finding in findings:
        if not finding.ok:
            yield f"{folder_of(reference) / finding.path}: {finding.text}. Do: {finding.fix}"
