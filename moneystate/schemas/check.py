"""Checks a folder of schemas: releases are unedited, versions are consecutive, and each can be read.

The requirements for a new version (`RULES`):

- state: a function from the version before (the core reads by functions, docs/evolution.md), with golden bytes;
- events: BACKWARD with all earlier versions, which remain in the logs. The current version, which the program reads,
  can read every version, because producers may be newer;
- lookups and enriched: FULL with all earlier versions. Job and consumers are upgraded one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from moneystate.records.avro_types import RecordType
from moneystate.records.resolution import reads
from moneystate.schemas.changes import BACKWARD, FULL, SchemaChange, changes
from moneystate.schemas.tree import RELEASED, STATE, Tree, Version, is_state

FUNCTION: Final = "function"
RULES: Final = {STATE: FUNCTION, "events": BACKWARD, "lookups": FULL, "enriched": FULL}
RESTORE: Final = "restore the file, and make the change in a new version."


@dataclass(frozen=True)
class Functions:
    """Migrations of state."""

    up: Collection[str]  # fingerprints (hex) of versions with a function to the next one
    golden: Collection[str] | None = None  # files below tests/golden; None: the tests are not available
    # Advice for a function that is missing.
    remedy: str = "add it to MIGRATIONS in moneystate/engine/clock.py, with golden bytes."


@dataclass(frozen=True)
class Finding:
    """One result of the check."""

    schema: str  # folder and type
    versions: str  # such as `v1 -> v2`
    path: str  # record and field, or the file
    rule: str  # a fixed name
    compatibility: str  # full, backward, forward, incompatible, or "" if nothing changed
    text: str
    fix: str
    ok: bool  # whether it is allowed


def check(tree: Tree, functions: Functions) -> list[Finding]:
    """Checks a tree by itself."""
    findings = [_broken(path, text) for path, text in sorted(tree.bad.items())]
    for name in sorted(set(tree.versions) | set(tree.released or {})):
        findings += _releases(tree, name)
        findings += _numbers(tree, name)
        if name in tree.versions:
            findings += _state(tree, name, functions) if is_state(name) else _topic(tree, name)
    return findings + list(_same_fingerprints(tree))


def check_against(tree: Tree, reference: Tree) -> list[Finding]:
    """Checks that everything released in `reference` is unchanged in `tree`. Without a list of releases, everything
    counts as released."""
    findings: list[Finding] = []
    for name, versions in sorted(reference.versions.items()):
        released = versions if reference.released is None else reference.released.get(name, {})
        for number, version in sorted(versions.items()):
            now = tree.versions.get(name, {}).get(number)
            if number not in released:
                continue
            if now is not None and now.sha256 == version.sha256:
                findings += _json_edited(tree, reference, now)
                continue
            findings.append(_missing_or_edited(tree, version, now))
    return findings


def _missing_or_edited(tree: Tree, before: Version, now: Version | None) -> Finding:
    label = f"v{before.number}"
    if now is None:
        return _missing(before.name, before.number, before.path)
    listed = (tree.released or {}).get(before.name, {}).get(before.number)
    if listed is not None and listed.sha256 == now.sha256:
        text = f"{label} was released with another content (fingerprint {before.fingerprint}, here {now.fingerprint})"
        fix = f"give the new content the number {max(tree.versions[before.name]) + 1}, and restore {label}."
        return Finding(before.name, label, now.path, "version number reused", "", text, fix, False)
    return _edited(now, before.fingerprint)


def _edited(now: Version, fingerprint: str) -> Finding:
    difference = (
        "only its text" if now.fingerprint == fingerprint else f"fingerprint {now.fingerprint}, was {fingerprint}"
    )
    text = f"v{now.number} is released and was edited ({difference})"
    return Finding(now.name, f"v{now.number}", now.path, "release edited", "", text, RESTORE, False)


def _json_edited(tree: Tree, reference: Tree, now: Version) -> Iterator[Finding]:
    """A release of before notes nothing."""
    before, fields = [t.json.get(now.name, {}).get(now.number) for t in (reference, tree)]
    if before is not None and before != fields:
        text = f"v{now.number} is released with JSON in {', '.join(before) or 'no field'}, and its note was edited"
        yield Finding(now.name, f"v{now.number}", RELEASED, "release edited", "", text, RESTORE, False)


def _missing(name: str, number: int, path: str) -> Finding:
    text = f"v{number} is released, but its file is missing: records of that version cannot be read"
    return Finding(name, f"v{number}", path, "released version missing", "", text, "restore the file.", False)


def _broken(path: str, text: str) -> Finding:
    return Finding(path.rpartition("/")[0], "", path, "no schema", "", text, "correct or remove the file.", False)


def _releases(tree: Tree, name: str) -> Iterator[Finding]:
    versions = tree.versions.get(name, {})
    released = (tree.released or {}).get(name, {})
    for number, entry in sorted(released.items()):
        version = versions.get(number)
        if version is None:
            yield _missing(name, number, name)
        elif version.sha256 != entry.sha256:
            yield _edited(version, entry.fingerprint)
    for number, version in sorted(versions.items()):
        if number not in released:
            text = f"v{number} is not released yet and may still change"
            yield Finding(name, f"v{number}", version.path, "not released", "", text, "", True)


def _numbers(tree: Tree, name: str) -> Iterator[Finding]:
    numbers = sorted(tree.versions.get(name, {}))
    wanted = list(range(1, len(numbers) + 1))
    if numbers != wanted:
        versions = ", ".join(f"v{n}" for n in numbers)
        text = f"expected v1 to v{len(numbers)} without a gap, found {versions}"
        yield Finding(name, versions, name, "version numbers not contiguous", "", text, "number them 1, 2, 3.", False)


def _same_fingerprints(tree: Tree) -> Iterator[Finding]:
    by_fingerprint: dict[str, Version] = {}
    for name in sorted(tree.versions):
        for _, version in sorted(tree.versions[name].items()):
            other = by_fingerprint.setdefault(version.fingerprint, version)
            if other is not version:
                text = f"the same fingerprint as {other.path}: a reader cannot tell them apart"
                fix = (
                    "names of fields and types count, defaults, aliases and logical types do not: change one of these."
                )
                label = f"v{version.number}"
                yield Finding(name, label, version.path, "fingerprint reused", "", text, fix, False)


def _pairs(versions: Mapping[int, Version]) -> list[tuple[Version, Version]]:
    """Each version with the next existing one."""
    numbers = sorted(versions)
    return [(versions[a], versions[b]) for a, b in itertools.pairwise(numbers)]


def _label(old: Version, new: Version) -> str:
    return f"v{old.number} -> v{new.number}"


def _of_change(change: SchemaChange, old: Version, new: Version, ok: bool, more: str = "") -> Finding:
    fix = change.fix if not ok else ""
    text = change.text + more
    return Finding(new.name, _label(old, new), change.path, change.rule, change.compatibility, text, fix, ok)


def _state(tree: Tree, name: str, functions: Functions) -> Iterator[Finding]:
    record = name.partition("/")[2]
    for number, version in sorted(tree.versions[name].items()):
        if functions.golden is not None and not _has_golden(functions.golden, f"v{number}", record):
            text = f"no golden bytes of v{number}"
            fix = f"put entries that the program wrote into tests/golden/v{number}/{record}.hex, and keep them."
            yield Finding(name, f"v{number}", version.path, "golden bytes missing", "", text, fix, False)
    for old, new in _pairs(tree.versions[name]):
        covered = old.fingerprint in functions.up
        for change in changes(old.type, new.type):
            yield _of_change(change, old, new, covered or change.backward, " (read by a function)" if covered else "")
        yield from _function(old, new, covered, functions, record)


def _function(old: Version, new: Version, covered: bool, functions: Functions, record: str) -> Iterator[Finding]:
    label = _label(old, new)
    if not covered:
        plain = _plain_resolution(old, new)
        text = f"no function v{old.number} -> v{new.number} ({plain})"
        yield Finding(new.name, label, new.path, "migration missing", "", text, functions.remedy, False)
    elif functions.golden is not None and not _has_golden(functions.golden, f"v{old.number}-to-v{new.number}", record):
        text = f"no golden bytes of what the function makes of v{old.number}"
        fix = f"put them into tests/golden/v{old.number}-to-v{new.number}/{record}.hex, and keep them."
        yield Finding(new.name, label, new.path, "golden bytes missing", "", text, fix, False)


def _plain_resolution(old: Version, new: Version) -> str:
    """Returns what Avro's resolution would make of the old records. It ignores fields that the new version does not
    have."""
    if not reads(new.type, old.type):
        return "Avro's resolution cannot do it"
    known = {f.name for f in new.type.fields} if isinstance(new.type, RecordType) else set()
    lost = [f.name for f in old.type.fields if f.name not in known] if isinstance(old.type, RecordType) else []
    return f"a plain resolution would lose {', '.join(lost)}" if lost else "a plain resolution would do"


def _has_golden(golden: Collection[str], folder: str, record: str) -> bool:
    return any(path.startswith((f"{folder}/{record}.", f"{folder}/{record}-")) for path in golden)


def _topic(tree: Tree, name: str) -> Iterator[Finding]:
    versions = tree.versions[name]
    rule = RULES[name.partition("/")[0]]
    current = tree.current_version(name)
    for old, new in _pairs(versions):
        for change in changes(old.type, new.type):
            allowed = change.backward and (rule != FULL or change.forward)
            # the program reads versions newer than its own, because producers may be ahead
            is_readable = new.number <= current.number or change.forward
            yield _of_change(change, old, new, allowed and is_readable)
    for number, version in sorted(versions.items()):
        for earlier in [versions[n] for n in sorted(versions) if n < number - 1]:
            yield from _not_consecutive(earlier, version, rule)
        if not reads(current.type, version.type):
            text = f"the program reads v{current.number}, which cannot read v{number}"
            fix = f"make v{number} readable, or let the program use it: schemas release --current {name}={number}."
            yield Finding(name, f"v{number}", version.path, "not readable", "", text, fix, False)


def _not_consecutive(old: Version, new: Version, rule: str) -> Iterator[Finding]:
    """Only the changes that are not allowed, because consecutive versions show the others."""
    for change in changes(old.type, new.type):
        if not (change.backward and (rule != FULL or change.forward)):
            yield _of_change(change, old, new, False)


def check_state_entries(tree: Tree, counts: Mapping[str, int], functions: Functions) -> list[Finding]:
    """Checks whether this program can read the entries of a state. `counts`: number of entries by fingerprint (hex)."""
    findings = []
    for fingerprint, n in sorted(counts.items()):
        version = tree.of_fingerprint(fingerprint)
        if version is None:
            text = f"{n:,} entries of a schema that this program does not know, because it is newer"
            fix = "run the program that wrote them, or a newer one."
            findings.append(Finding("state", "", fingerprint, "unknown schema", "", text, fix, False))
            continue
        newest = max(tree.versions[version.name])
        chain = [tree.versions[version.name][i] for i in range(version.number, newest)]
        broken = next((v for v in chain if v.fingerprint not in functions.up), None)
        text = f"{n:,} entries of v{version.number}, {'current' if version.number == newest else 'read by functions'}"
        fix = ""
        if broken is not None:
            text = f"{n:,} entries of v{version.number}; no function leads on from v{broken.number}"
            fix = "run a program that has it."
        label = f"v{version.number}"
        findings.append(Finding(version.name, label, version.path, "entries", "", text, fix, broken is None))
    return findings
