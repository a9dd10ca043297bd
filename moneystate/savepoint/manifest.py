"""The manifest of a savepoint: what it is, how it was made, and which files it has.

`manifest.json`, with sorted keys. It has everything that a start checks, so that a start opens no other file for that.

    format 1   until now
    format 2   also changelog: where a replica continues that loads the savepoint

A savepoint without a changelog position is written in format 1, so that earlier programs can read it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

from moneystate.engine.json_object import read_object
from moneystate.engine.plan import STATE_VERSION, NewerProgram, Unreadable, from_offset
from moneystate.errors import SavepointError

FORMAT = 2
WITHOUT_CHANGELOG = 1
NAME = "manifest.json"
_FILE = re.compile(r"(state|output)/group-\d{5,9}\.avro")
_KINDS = {"str": str, "int": int, "list": list, "dict": dict}
BOOTSTRAP, EXPORT = "bootstrap", "export"


@dataclass(frozen=True)
class FileInfo:
    """One file of a savepoint."""

    name: str  # relative to the savepoint's folder
    entries: int  # number of records
    bytes: int
    sha256: str  # in hex


@dataclass(frozen=True)
class ChangelogPosition:
    """Describes where the changelog has exactly what the savepoint has, and what its last version tells its readers."""

    topic_id: str
    positions: dict[str, int]  # by partition: the offset after everything that the savepoint has
    read_ms: int  # when they were read, by the wall clock
    written_at_ms: int  # when the version's last end-of-batch record was written
    rules: dict[str, Any]  # of the end-of-batch records


@dataclass(frozen=True)
class Manifest:
    """Holds what a savepoint is and where it comes from."""

    made_by: str  # BOOTSTRAP or EXPORT
    made_at: str  # ISO-8601, UTC
    job: str  # the name in its `JobSpec`
    schemas: list[str]  # single-object headers (hex) of all schemas that entries may have
    rules: dict[str, Any]  # those of the `JobSpec`
    key_groups: int
    partitions: int  # of the operator
    # The source offset to continue from (`moneystate.engine.plan`); None: unknown (history without offsets).
    plan: dict[str, Any] | None
    watermark: int  # in ms
    counts: dict[str, int]  # sums of the counts in the key groups' clocks
    fingerprint: str  # see `moneystate.savepoint.fingerprint`
    state: list[FileInfo]  # one file for each key group, in their order
    output: list[FileInfo] = field(default_factory=list)  # the same for outputs; empty: none were kept
    # Output topics without prefix, by the stream number in the output's records.
    streams: list[str] = field(default_factory=list)
    # The epochs that led to it, newest last; a start from it may take over their markers. Empty after a bootstrap.
    origins: list[str] = field(default_factory=list)
    origin_batch: int = 0  # first batch of the newest origin that the savepoint does not include
    state_version: int = STATE_VERSION
    changelog: ChangelogPosition | None = None  # None: not known
    format: int = FORMAT

    def encode(self) -> str:
        fields = asdict(self)
        if self.changelog is None:
            del fields["changelog"]
        fields["format"] = WITHOUT_CHANGELOG if self.changelog is None else FORMAT
        return json.dumps(fields, sort_keys=True, indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Raises SavepointError if there is none, or if a newer program made it."""
    path = folder / NAME
    try:
        text = path.read_text()
    except (OSError, ValueError) as e:
        raise no_manifest(str(path), e) from None
    return decode_manifest(text, str(path))


def no_manifest(path: str, e: Exception) -> SavepointError:
    return SavepointError(
        f"{path}: expected the manifest of a savepoint, found {e}.",
        "give a folder that bootstrap or checkpoint export has finished.",
    )


def decode_manifest(text: str, path: str) -> Manifest:
    """`path`: its name in errors. Raises SavepointError if it is none, or if a newer program made it."""
    try:
        fields = read_object(text)
    except ValueError as e:
        raise no_manifest(path, e) from None
    _check_versions(path, fields)
    try:
        for name in ("state", "output"):
            fields[name] = [_file_info(info) for info in fields[name]]
        if fields.get("changelog") is not None:
            fields["changelog"] = _changelog_position(fields["changelog"])
        manifest = Manifest(**fields)
        _check_types(manifest)
    except (TypeError, KeyError, AttributeError, Unreadable, NewerProgram) as e:
        raise SavepointError(
            f"{path}: expected the fields of a manifest, but {e}.", "make the savepoint again."
        ) from None
    if len(manifest.state) != manifest.key_groups:
        raise SavepointError(
            f"{path}: expected a file for each of {manifest.key_groups} key groups, found {len(manifest.state)}.",
            "make the savepoint again.",
        )
    if manifest.output and len(manifest.output) != manifest.key_groups:
        raise SavepointError(
            f"{path}: expected outputs of each of {manifest.key_groups} key groups or of none, found "
            f"{len(manifest.output)}.",
            "make the savepoint again.",
        )
    return manifest


def _file_info(fields: Any) -> FileInfo:
    """Raises TypeError."""
    info = FileInfo(**fields)
    types = [(info.name, str), (info.entries, int), (info.bytes, int), (info.sha256, str)]
    if any(type(value) is not kind for value, kind in types) or not _FILE.fullmatch(info.name):
        raise TypeError("an entry of state or output is not a file")
    return info


def _changelog_position(fields: Any) -> ChangelogPosition:
    """Raises TypeError."""
    position = ChangelogPosition(**fields)
    numbers = [position.read_ms, position.written_at_ms]
    if type(position.topic_id) is not str or type(position.positions) is not dict or type(position.rules) is not dict:
        raise TypeError("changelog is not a position")
    if any(type(n) is not int for n in [*numbers, *position.positions.values()]):
        raise TypeError("changelog has a position or time that is not a number")
    if {*position.positions} != {str(n) for n in range(len(position.positions))}:
        raise TypeError("changelog does not have a position of each partition")
    return position


def _check_types(manifest: Manifest) -> None:
    """Raises TypeError, and the errors of a plan."""
    for f in dataclass_fields(manifest):
        value, kind = getattr(manifest, f.name), _KINDS.get(str(f.type).partition("[")[0])
        if value is None and f.name == "plan":
            continue
        if kind is not None and type(value) is not kind:
            raise TypeError(f"{f.name} is {type(value).__name__}, not {kind.__name__}")
    texts = [*manifest.schemas, *manifest.streams, *manifest.origins]
    if any(type(text) is not str for text in texts) or any(type(n) is not int for n in manifest.counts.values()):
        raise TypeError("a list of texts or the counts have other values")
    if manifest.plan is not None:
        from_offset(manifest.plan)


def _check_versions(path: str, fields: dict[str, Any]) -> None:
    if type(fields.get("format")) is not int or type(fields.get("state_version")) is not int:
        raise SavepointError(f"{path}: expected a manifest, found something else.", "give the folder of a savepoint.")
    for name, newest in (("format", FORMAT), ("state_version", STATE_VERSION)):
        if fields[name] > newest:
            raise SavepointError(
                f"{path}: expected {name} up to {newest}, found {fields[name]}: a newer program made it.",
                "use the version that made it, or newer.",
            )
