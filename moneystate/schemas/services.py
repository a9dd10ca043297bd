"""A plain service's released schemas: made of its records, kept beside it in `avro/<service>/`, never edited.

events/<Type>.avsc, events/<Type>/v<N>.avsc    what stands in its topics, read or written
state/<Record>/v1.avsc                         its records of state
released.json                                  the list of releases (`moneystate.schemas.tree`)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from moneystate.api.job import folder_of, plan_of, state_schemas, topic_schemas
from moneystate.api.schema import canonical_form, fingerprint
from moneystate.errors import ConfigError, ServiceError
from moneystate.schemas.check import Finding, Functions, check
from moneystate.schemas.tree import RELEASED, STATE, Tree, is_state, read_folder, release, tree_of

EVENTS = "events"
NO_FUNCTIONS = Functions([], [])


class Declared(NamedTuple):
    """A record as the service has it now. `number`: of the version that has its schema, None where there is none."""

    name: str
    schema: dict[str, Any]
    number: int | None


def released_tree(service: str) -> Tree:
    return tree_of(read_folder(folder_of(service)))


def declared(service: str, tree: Tree) -> Iterator[Declared]:
    plan = plan_of(service)
    for folder, schemas in ((EVENTS, topic_schemas(plan)), (STATE, state_schemas(plan))):
        for short, schema in sorted(schemas.items()):
            name = f"{folder}/{short}"
            mine = fingerprint(canonical_form(schema)).to_bytes(8, "little").hex()
            versions = tree.versions.get(name, {})
            yield Declared(name, schema, next((n for n, v in versions.items() if v.fingerprint == mine), None))


def unreleased(service: str) -> list[str]:
    """Names of the records that are not as they are released."""
    tree = released_tree(service)
    released = tree.released or {}
    return [
        one.name
        for one in declared(service, tree)
        if one.number not in released.get(one.name, {})
        or (not is_state(one.name) and tree.current.get(one.name) != one.number)
    ]


def check_released(service: str) -> None:
    """Raises ServiceError for a service that must not start: what it writes could not be told later."""
    names = unreleased(service)
    if names:
        raise ServiceError(
            f"{service}: expected records as they are released in {folder_of(service)}, found others: "
            f"{', '.join(names)}.",
            f"moneystate schemas release {service}, and keep the files with the service.",
        )


def findings_of(service: str) -> list[Finding]:
    """All that there is to say of a service's schemas."""
    tree = released_tree(service)
    problems = check(tree, NO_FUNCTIONS)
    fix = f"moneystate schemas release {service}"
    return problems + [
        Finding(name, "", name, "not as released", "", "the record is not the released one", fix, False)
        for name in unreleased(service)
    ]


def release_service(service: str) -> list[str]:
    """Write what is not released yet. Gives the names and versions; raises ConfigError, with nothing written, for a
    change that must not be."""
    root = folder_of(service)
    files = read_folder(root)
    tree = tree_of(files)
    current, fresh = dict(tree.current), {}
    for one in declared(service, tree):
        number = one.number
        if number is None:
            number = max(tree.versions.get(one.name, {0: None})) + 1
            fresh[_path(service, one.name, number)] = _text(one.schema)
        if not is_state(one.name):
            current[one.name] = number
    whole = tree_of({**files, **fresh})
    whole.current = current
    bad = [f for f in check(whole, NO_FUNCTIONS) if not f.ok]
    if bad:
        raise ConfigError(f"{root}: {bad[0].path}: {bad[0].text}.", bad[0].fix)
    for path, content in fresh.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    root.mkdir(parents=True, exist_ok=True)
    (root / RELEASED).write_text(release(whole, current))
    return [Path(path).with_suffix("").as_posix() for path in sorted(fresh)]


def _path(service: str, name: str, number: int) -> str:
    if not is_state(name):
        return f"{name}.avsc" if number == 1 else f"{name}/v{number}.avsc"
    if number > 1:
        raise ServiceError(
            f"{service}: {name} is released and differs: a released record of state cannot change yet.",
            "restore it, or keep what is new in a value or map of another record.",
        )
    return f"{name}/v{number}.avsc"


def _text(schema: dict[str, Any]) -> bytes:
    return (json.dumps(schema, indent=2) + "\n").encode()
