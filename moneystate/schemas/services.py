"""The released schemas of services: generated from their records, kept in `avro/<service>/`, never edited.

events/<Type>.avsc, events/<Type>/v<N>.avsc    records of its input and output topics
state/<Record>/v<N>.avsc                       its state records
                                               <Type> and <Record>: short names, full ones where two records share one
golden/<Record>/v<N>.json                      bytes of a record of that version, and their content
golden/<Record>/v<N>-to-v<M>.json              the record that a program of version M read from these bytes
released.json                                  the list of releases (`moneystate.schemas.tree`)
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from moneystate.engine.avro import MAGIC
from moneystate.errors import ConfigError, ServiceError
from moneystate.records.json_fields import json_fields
from moneystate.records.schema import fingerprint_of, schema_of
from moneystate.runtime.folders import PACKAGE, folder_of
from moneystate.runtime.job import state_records, topic_records
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import path_of
from moneystate.schemas import golden
from moneystate.schemas.check import Finding, Functions, check
from moneystate.schemas.tree import RELEASED, STATE, Tree, is_state, read_folder, release, tree_of

EVENTS = "events"
REMEDY = "give new fields a default, or write a function with @ms.upgrade."


class Declared(NamedTuple):
    """A record as the service declares it now."""

    name: str
    schema: dict[str, Any]
    json: tuple[str, ...]  # full names of the fields that are JSON
    number: int | None  # of the released version with the same schema; None: not released


class Pending(NamedTuple):
    """The changes that a release would write."""

    released: Tree
    tree: Tree  # with the new versions
    new_files: dict[str, bytes]
    unnoted: list[Declared]  # released records whose JSON fields are not in the list of releases


def typed(reference: str) -> str:
    """The service as a command takes it from here: by the file of its module, if that cannot be imported from here."""
    path = path_of(reference)
    module, _, name = path.partition(":")
    source = import_module(module).__file__
    assert source is not None
    file = Path(source).resolve()
    root = file.parents[module.count(".") + (file.name == "__init__.py")]
    importable = root in (Path.cwd(), PACKAGE.parent) or root.name == "site-packages"
    return path if importable else shlex.quote(f"{os.path.relpath(file)}:{name}")


def released_tree(service: str) -> Tree:
    return tree_of(read_folder(folder_of(service)))


def declared(service: str, tree: Tree) -> Iterator[Declared]:
    plan = plan_of(service)
    for folder, records in ((EVENTS, topic_records(plan)), (STATE, state_records(plan))):
        names = tree.names_in(folder, records)
        for full_name, record in sorted(records.items(), key=lambda named: names[named[0]]):
            name, schema, json_ = names[full_name], schema_of(record), tuple(json_fields(record))
            own_fingerprint, noted = fingerprint_of(schema), tree.json.get(name, {})
            same = [
                number
                for number, version in tree.versions.get(name, {}).items()
                if version.fingerprint == own_fingerprint
                and _scales(version.source) == _scales(schema)
                and noted.get(number, json_) == json_
            ]
            yield Declared(name, schema, json_, same[0] if same else None)


def _scales(schema: Any) -> list[int | None]:
    """The scales of all bytes types in a schema; None: not a decimal. Fingerprints do not include scales, which decide
    the value of a number."""
    if isinstance(schema, list):
        return [scale for branch in schema for scale in _scales(branch)]
    if not isinstance(schema, dict):
        return [None] if schema == "bytes" else []
    if schema["type"] == "bytes":
        return [schema.get("scale", 0) if schema.get("logicalType") == "decimal" else None]
    if schema["type"] == "record":
        return [scale for f in schema["fields"] for scale in _scales(f["type"])]
    return _scales(schema.get("items", schema.get("values", schema["type"])))


def unreleased(service: str) -> list[str]:
    """The names of records that differ from their release."""
    tree = released_tree(service)
    released = tree.released or {}
    return [
        one.name
        for one in declared(service, tree)
        if one.number not in released.get(one.name, {}) or one.number != _current(tree, one.name)
    ]


def _current(tree: Tree, name: str) -> int | None:
    """The version that a program must have. For state it is the newest."""
    return max(tree.versions[name]) if is_state(name) else tree.current.get(name)


def functions_of(service: str) -> Functions:
    """The versions of state records that the service can read besides the current ones."""
    up = {header[len(MAGIC) :].hex() for kind in plan_of(service).kinds.values() for header in kind.earlier_records}
    return Functions(up, remedy=REMEDY)


def check_released(service: str) -> None:
    """Raises ServiceError for a service that must not start, because its records could not be identified later."""
    names = unreleased(service)
    if names:
        raise ServiceError(
            f"{path_of(service)}: expected the records released in {folder_of(service)}, found changes: "
            f"{', '.join(names)}.",
            f"run moneystate schemas release {typed(service)}, and keep the files with the service.",
        )


def findings_of(service: str) -> list[Finding]:
    """All findings about a service's schemas, and about what a release would add to them."""
    pending, functions = _pending(service), functions_of(service)
    problems = [*check(pending.released, functions), *golden.findings(service, pending.released)]
    problems += [finding for finding in check(pending.tree, functions) if finding not in problems]
    problems += [_unnoted(service, one) for one in pending.unnoted]
    fix = f"moneystate schemas release {typed(service)}"
    return problems + [
        Finding(name, "", name, "not as released", "", "the record is not the released one", fix, False)
        for name in unreleased(service)
    ]


def release_service(service: str) -> list[str]:
    """Writes the schemas that are not released yet. Returns their names and versions. For a change that is not allowed
    it raises ConfigError and writes nothing."""
    root = folder_of(service)
    _, new_tree, new_files, _ = _pending(service)
    bad = [f for f in check(new_tree, functions_of(service)) if not f.ok]
    if bad:
        raise ConfigError(f"{root}: {bad[0].path}: {bad[0].text}.", bad[0].fix)
    golden.check_samples(service)
    for path, content in new_files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    root.mkdir(parents=True, exist_ok=True)
    listed, releases = root / RELEASED, release(new_tree, new_tree.current)
    same = listed.exists() and listed.read_text() == releases
    listed.write_text(releases)
    golden.keep(service, new_tree)
    if not new_files and not same:
        return [f"{RELEASED}: which strings are JSON"]
    return [Path(path).with_suffix("").as_posix() for path in sorted(new_files)]


def _pending(service: str) -> Pending:
    files = read_folder(folder_of(service))
    tree = tree_of(files)
    current, new_files, records = dict(tree.current), {}, list(declared(service, tree))
    for one in records:
        number = one.number
        if number is None:
            number = max(tree.versions.get(one.name, {0: None})) + 1
            new_files[_path(one.name, number)] = _text(one.schema)
        if not is_state(one.name):
            current[one.name] = number
    new_tree = tree_of({**files, **new_files})
    new_tree.current = current
    unnoted = [one for one in records if one.json and one.number is not None and not tree.json.get(one.name)]
    for each in (tree, new_tree):
        _note_json(each, records)
    return Pending(tree, new_tree, new_files, unnoted)


def _unnoted(service: str, one: Declared) -> Finding:
    text = f"the list of releases does not say whether {', '.join(one.json)} was text or JSON"
    fix = f"if it was JSON before: moneystate schemas release {typed(service)}"
    return Finding(one.name, f"v{one.number}", RELEASED, "JSON not noted", "", text, fix, True)


def _note_json(tree: Tree, records: Iterable[Declared]) -> None:
    """Completes early releases, which do not record their JSON fields: it assumes the present ones."""
    for one in records:
        for number in tree.versions.get(one.name, {}).keys() - tree.json.get(one.name, {}).keys():
            tree.note_json(one.name, number, one.json)


def _path(name: str, number: int) -> str:
    if not is_state(name):
        return f"{name}.avsc" if number == 1 else f"{name}/v{number}.avsc"
    return f"{name}/v{number}.avsc"


def _text(schema: dict[str, Any]) -> bytes:
    return (json.dumps(schema, indent=2) + "\n").encode()
