"""The folder of schemas on disk or in a commit, with its list of releases.

state/<Record>/v<N>.avsc                    versions of a state record
<events|lookups|enriched>/<Type>.avsc       version 1 of a type in topics
<events|lookups|enriched>/<Type>/v<N>.avsc  its further versions, from 2 on
                                            <Record> and <Type> are full names where a service
                                            has several of one short name
released.json                               all released versions, by fingerprint and SHA-256, and the
                                            current one, which this program reads and writes. For
                                            state it is the newest. Of a service also which strings
                                            of a version are JSON (`json`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from moneystate.records.avro_types import BadSchema, Type, fingerprint, parse
from moneystate.records.json_fields import NOTED, marked

RELEASED: Final = "released.json"
STATE: Final = "state"
TOPIC_FOLDERS: Final = ("events", "lookups", "enriched")
_FIRST = re.compile(rf"({'|'.join(TOPIC_FOLDERS)})/([\w.]+)\.avsc")
_NUMBERED = re.compile(rf"({'|'.join((STATE, *TOPIC_FOLDERS))})/([\w.]+)/v([1-9]\d*)\.avsc")


@dataclass(frozen=True)
class Version:
    """One schema file."""

    name: str  # folder and type
    number: int
    path: str
    source: dict[str, Any]
    type: Type
    fingerprint: str  # CRC-64-AVRO in hex, little-endian as in headers
    sha256: str


@dataclass(frozen=True)
class Release:
    fingerprint: str
    sha256: str
    json: tuple[str, ...] | None = None  # full names of the fields that are JSON; None: not noted


@dataclass
class Tree:
    """A folder of schemas."""

    versions: dict[str, dict[int, Version]] = field(default_factory=dict)  # by name and number
    bad: dict[str, str] = field(default_factory=dict)  # paths of files that are not schemas, with the reason
    # None: the folder has no list of releases, as in early versions.
    released: dict[str, dict[int, Release]] | None = None
    current: dict[str, int] = field(default_factory=dict)
    json: dict[str, dict[int, tuple[str, ...]]] = field(default_factory=dict)  # the JSON fields, by name and number

    def note_json(self, name: str, number: int, fields: tuple[str, ...]) -> None:
        """Marks the JSON fields of a version."""
        version = self.versions[name][number]
        self.json.setdefault(name, {})[number] = fields
        self.versions[name][number] = replace(version, type=parse(marked(version.source, fields)))

    def of_fingerprint(self, text: str) -> Version | None:
        return next(
            (v for versions in self.versions.values() for v in versions.values() if v.fingerprint == text), None
        )

    def names_in(self, folder: str, full_names: Iterable[str]) -> dict[str, str]:
        """The names in the tree of a service's records, by their full names. A record that shares its short name with
        another goes by its full name, unless it was released under the short one."""
        names = list(full_names)
        shared = Counter([name.rpartition(".")[2] for name in names])
        return {name: self._name_in(folder, name, shared[name.rpartition(".")[2]] > 1) for name in names}

    def _name_in(self, folder: str, full_name: str, is_shared: bool) -> str:
        short, full = f"{folder}/{full_name.rpartition('.')[2]}", f"{folder}/{full_name}"
        if full in self.versions:
            return full
        newest = self.versions[short][max(self.versions[short])] if short in self.versions else None
        is_own = newest is not None and full_name_of(newest.source) == full_name
        return full if is_shared and not is_own else short

    def current_version(self, name: str) -> Version:
        """The version that this program reads and writes."""
        versions = self.versions[name]
        default = max(versions) if is_state(name) else min(versions)
        return versions.get(self.current.get(name, default), versions[default])


def full_name_of(source: Mapping[str, Any]) -> str:
    name, namespace = str(source.get("name", "")), source.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name


def is_state(name: str) -> bool:
    return name.startswith(f"{STATE}/")


def read_folder(root: Path) -> dict[str, bytes]:
    """The files below `root`, by relative path, without folders that have their own list of releases."""
    others = [path.parent for path in root.glob(f"*/{RELEASED}")]
    paths = [path for path in root.rglob("*.avsc") if not any(other in path.parents for other in others)]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted([*paths, *root.glob(RELEASED)])}


def tree_of(files: Mapping[str, bytes]) -> Tree:
    tree = Tree()
    for path, content in files.items():
        if path == RELEASED:
            tree.released, tree.current = _releases(content)
            continue
        place = _place(path)
        if place is None:
            tree.bad[path] = "expected a schema as state/<Record>/v<N>.avsc or <folder>/<Type>[/v<N>].avsc"
            continue
        try:
            version = _version(path, *place, content)
        except (BadSchema, ValueError) as e:
            tree.bad[path] = f"{e}"
            continue
        tree.versions.setdefault(version.name, {})[version.number] = version
    for name, released in (tree.released or {}).items():
        for number, entry in released.items():
            if entry.json is not None and number in tree.versions.get(name, {}):
                tree.note_json(name, number, entry.json)
    return tree


def _place(path: str) -> tuple[str, int] | None:
    """Name and number of a schema's path."""
    first, numbered = _FIRST.fullmatch(path), _NUMBERED.fullmatch(path)
    if first:
        return f"{first[1]}/{first[2]}", 1
    if numbered and (numbered[1] == STATE or int(numbered[3]) > 1):
        return f"{numbered[1]}/{numbered[2]}", int(numbered[3])
    return None


def _version(path: str, name: str, number: int, content: bytes) -> Version:
    source = json.loads(content)
    parsed = parse(source)
    short = name.partition("/")[2]
    known = full_name_of(source)
    if short not in (known, known.rpartition(".")[2]):
        raise BadSchema(f"expected a record {short}, found {source.get('name')!r}")
    return Version(
        name,
        number,
        path,
        source,
        parsed,
        fingerprint(parsed).hex(),
        hashlib.sha256(content).hexdigest(),
    )


def _releases(content: bytes) -> tuple[dict[str, dict[int, Release]], dict[str, int]]:
    entries = json.loads(content)
    released = {
        name: {int(n): _release(version) for n, version in entry["versions"].items()} for name, entry in entries.items()
    }
    return released, {name: entry["current"] for name, entry in entries.items() if "current" in entry}


def _release(entry: Mapping[str, Any]) -> Release:
    fields = entry.get(NOTED)
    return Release(entry["fingerprint"], entry["sha256"], None if fields is None else tuple(fields))


def release(tree: Tree, current: Mapping[str, int]) -> str:
    """The text of the list of releases with all versions of the tree. `current`: the new current versions of types in
    topics."""
    released: dict[str, Any] = {}
    for name, by_number in sorted(tree.versions.items()):
        noted = tree.json.get(name, {})
        versions: dict[str, Any] = {
            str(n): {"fingerprint": v.fingerprint, "sha256": v.sha256, **({NOTED: noted[n]} if n in noted else {})}
            for n, v in sorted(by_number.items())
        }
        released[name] = {"versions": versions}
        if not is_state(name):
            released[name]["current"] = current.get(name, tree.current_version(name).number)
    return json.dumps(released, indent=1, sort_keys=True) + "\n"
