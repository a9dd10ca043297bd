"""The manifest of a savepoint: what it is, what it was made with and what is in its files.

`manifest.json`, keys sorted. Everything that a start has to check stands here, so that it opens no other file for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from moneystate.engine.plan import STATE_VERSION
from moneystate.errors import SavepointError

FORMAT = 1
NAME = "manifest.json"
BOOTSTRAP, EXPORT = "bootstrap", "export"


@dataclass(frozen=True)
class FileInfo:
    """One file: `entries` records, its size and its SHA-256 in hex. The name is relative to the savepoint's folder."""

    name: str
    entries: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """`made_by`: BOOTSTRAP or EXPORT; `made_at`: ISO-8601, UTC; `job`: the name in its `JobSpec`.

    `schemas`: the single-object headers (hex) of all schemas that entries may have; `rules`: those of the `JobSpec`;
    `partitions`: of the operator; `plan`: the source offset to go on from (`moneystate.engine.plan`), None where it is
    not known (history without offsets); `watermark`: ms; `counts`: as in the key groups' clocks, summed;
    `fingerprint`: `moneystate.savepoint.fingerprint`; `origins`: the epochs that led to it, the newest last, whose
    markers a start from this may take over, and `origin_batch`: the newest one's first batch that is not in it; none
    of a bootstrap; `streams`: output topics without prefix by the stream number in the output's records.
    `state`: one file for each key group, in their order; `output`: the same, or empty where none was kept.
    """

    made_by: str
    made_at: str
    job: str
    schemas: list[str]
    rules: dict[str, Any]
    key_groups: int
    partitions: int
    plan: dict[str, Any] | None
    watermark: int
    counts: dict[str, int]
    fingerprint: str
    state: list[FileInfo]
    output: list[FileInfo] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    origin_batch: int = 0
    state_version: int = STATE_VERSION
    format: int = FORMAT

    def encode(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Raises SavepointError where there is none, or one of a newer program."""
    path = folder / NAME
    try:
        fields = json.loads(path.read_text())
    except (OSError, ValueError) as e:
        raise SavepointError(
            f"{path}: expected the manifest of a savepoint, came {e}.",
            "give a folder that bootstrap or state export has finished.",
        ) from None
    _check_versions(path, fields)
    try:
        for name in ("state", "output"):
            fields[name] = [FileInfo(**info) for info in fields[name]]
        manifest = Manifest(**fields)
    except (TypeError, KeyError, AttributeError) as e:
        raise SavepointError(
            f"{path}: expected the fields of a manifest, but {e}.", "make the savepoint again."
        ) from None
    if len(manifest.state) != manifest.key_groups:
        raise SavepointError(
            f"{path}: expected a file for each of {manifest.key_groups} key groups, came {len(manifest.state)}.",
            "make the savepoint again.",
        )
    return manifest


def _check_versions(path: Path, fields: Any) -> None:
    known = isinstance(fields, Mapping) and isinstance(fields.get("format"), int)
    if not known or not isinstance(fields.get("state_version"), int):
        raise SavepointError(f"{path}: expected a manifest, came something else.", "give the folder of a savepoint.")
    for name, newest in (("format", FORMAT), ("state_version", STATE_VERSION)):
        if fields[name] > newest:
            raise SavepointError(
                f"{path}: expected {name} up to {newest}, came {fields[name]}: a newer program made it.",
                "use the version that made it, or newer.",
            )
