"""`moneystate schemas check` on a copy of the schemas with one thing wrong: refused, with the right words."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moneystate.cli import main
from moneystate.cli.schemas import functions_for
from moneystate.runtime.folders import avro_root
from moneystate.schemas.check import Finding, Functions, check, check_against, check_state_entries
from moneystate.schemas.tree import RELEASED, read_folder, release, tree_of

Json = dict[str, Any]
FUNCTIONS = functions_for(avro_root())
FOLDERS = {
    "SessionLookupRequested": "lookups",
    "SessionLookupCompleted": "lookups",
    "MoneyEnriched": "enriched",
}


@pytest.fixture
def avro(tmp_path: Path) -> Path:
    """The engine's schemas and those of the contract, in the folders that have rules of their own, all released."""
    root = tmp_path / "avro"
    shutil.copytree(avro_root() / "state", root / "state")
    for file in (avro_root() / "money-enrichment/events").glob("*.avsc"):
        target = root / FOLDERS.get(file.stem, "events") / file.name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(file, target)
    (root / RELEASED).write_text(release(tree_of(read_folder(root)), {}))
    return root


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["moneystate", "schemas", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert isinstance(end.value.code, int)
    return end.value.code


def bad(folder: Path) -> list[Finding]:
    return [f for f in check(tree_of(read_folder(folder)), FUNCTIONS) if not f.ok]


def change(path: Path, edit: Callable[[Json], object], to: Path | None = None) -> None:
    """Edit a schema in place, or into the file of another version."""
    schema = json.loads(path.read_text())
    edit(schema)
    target = to or path
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(schema, indent=2))


def next_event(avro: Path, edit: Callable[[Json], object], name: str = "events/ChangeAddressEvent") -> None:
    change(avro / f"{name}.avsc", edit, avro / name / "v2.avsc")


def next_state(avro: Path, edit: Callable[[Json], object], name: str = "KeyGroupClock") -> None:
    change(avro / "state" / name / "v2.avsc", edit, avro / "state" / name / "v3.avsc")


def field(schema: Json, name: str) -> Json:
    member: Json = next(f for f in schema["fields"] if f["name"] == name)
    return member


def add(name: str, avro_type: Any, **more: Any) -> Callable[[Json], object]:
    return lambda schema: schema["fields"].append({"name": name, "type": avro_type, **more})


def remove(name: str) -> Callable[[Json], object]:
    return lambda schema: schema["fields"].remove(field(schema, name))


def retype(name: str, avro_type: Any) -> Callable[[Json], object]:
    return lambda schema: field(schema, name).update(type=avro_type)


def rename(name: str, to: str) -> Callable[[Json], object]:
    return lambda schema: field(schema, name).update(name=to)


def test_the_schemas_as_they_are_are_fine() -> None:
    assert bad(avro_root()) == []


@pytest.mark.parametrize(
    ("edit", "rule", "path"),
    [
        (add("floor", "string"), "field added without default", "ChangeAddressEvent.floor"),
        (remove("postalCode"), "field removed without default", "ChangeAddressEvent.postalCode"),
        (retype("postalCode", "int"), "type changed", "ChangeAddressEvent.postalCode"),
        (rename("postalCode", "zip"), "field renamed without alias", "ChangeAddressEvent.zip"),
        (retype("processedAt", "int"), "type narrowed", "ChangeAddressEvent.processedAt"),
        (
            retype("processedAt", {"type": "long", "logicalType": "timestamp-micros"}),
            "logical type changed",
            "ChangeAddressEvent.processedAt",
        ),
    ],
)
def test_a_new_event_version_that_cannot_be_read_is_refused(
    avro: Path, edit: Callable[[Json], object], rule: str, path: str
) -> None:
    next_event(avro, edit)
    finding = next(f for f in bad(avro) if f.rule == rule)
    assert (finding.path, finding.versions, finding.ok) == (path, "v1 -> v2", False)
    assert finding.fix


def test_a_new_event_version_with_a_default_is_fine(avro: Path) -> None:
    next_event(avro, add("floor", ["null", "string"], default=None))
    assert bad(avro) == []


@pytest.mark.parametrize("symbols", [["FOUND", "NOT_FOUND"], ["FOUND", "NOT_FOUND", "FAILED", "REFUSED"]])
def test_a_changed_enum_is_refused_where_both_sides_have_to_read(avro: Path, symbols: list[str]) -> None:
    name = "lookups/SessionLookupCompleted"
    next_event(avro, lambda schema: field(schema, "outcome")["type"].update(symbols=symbols), name)
    assert {f.rule for f in bad(avro)} & {"enum symbol removed", "enum symbol added"}


def test_an_output_that_old_consumers_cannot_read_is_refused(avro: Path) -> None:
    next_event(avro, remove("sessionStatus"), "enriched/MoneyEnriched")
    assert {(f.rule, f.compatibility) for f in bad(avro)} >= {("field removed without default", "backward")}


def test_an_edited_release_is_refused(avro: Path) -> None:
    change(avro / "state" / "BufferChunk" / "v1.avsc", add("more", "int", default=0))
    (finding,) = [f for f in bad(avro) if f.rule == "release edited"]
    assert (finding.schema, finding.versions) == ("state/BufferChunk", "v1")
    assert "is released and was edited" in finding.text


def test_an_edit_of_the_text_alone_is_an_edit(avro: Path) -> None:
    path = avro / "events" / "Heartbeat.avsc"
    path.write_text(path.read_text() + "\n")
    (finding,) = bad(avro)
    assert (finding.rule, "only its text" in finding.text) == ("release edited", True)


def test_a_released_version_that_is_gone_is_refused(avro: Path) -> None:
    (avro / "state" / "KeyGroupClock" / "v1.avsc").unlink()
    assert {f.rule for f in bad(avro)} == {"released version missing", "version numbers not contiguous"}


def test_a_gap_in_the_numbers_is_refused(avro: Path) -> None:
    change(avro / "state/KeyGroupClock/v2.avsc", add("more", "int"), avro / "state/KeyGroupClock/v4.avsc")
    assert "version numbers not contiguous" in {f.rule for f in bad(avro)}


def test_a_reused_version_number_is_refused(avro: Path, tmp_path: Path) -> None:
    """Released here as v3, and on another branch as another v3."""
    theirs = Path(shutil.copytree(avro, tmp_path / "theirs"))
    for folder, name in ((avro, "ours"), (theirs, "theirs")):
        next_state(folder, add(name, "int", default=0))
        tree = tree_of(read_folder(folder))
        listed = json.loads((folder / RELEASED).read_text())
        v3 = tree.versions["state/KeyGroupClock"][3]
        listed["state/KeyGroupClock"]["versions"]["3"] = {"fingerprint": v3.fingerprint, "sha256": v3.sha256}
        (folder / RELEASED).write_text(json.dumps(listed))
    (finding,) = check_against(tree_of(read_folder(avro)), tree_of(read_folder(theirs)))
    assert (finding.rule, finding.versions) == ("version number reused", "v3")
    assert "the number 4" in finding.fix


def test_a_version_with_the_same_fingerprint_is_refused(avro: Path) -> None:
    """Defaults and logical types are no part of it: a reader could not tell the versions apart."""
    next_event(avro, lambda schema: field(schema, "postalCode").update(default=""))
    assert "fingerprint reused" in {f.rule for f in bad(avro)}


def test_state_needs_a_function_and_golden_bytes(avro: Path) -> None:
    next_state(avro, add("more", "int", default=0))
    findings = {f.rule: f for f in bad(avro)}
    assert set(findings) == {"migration missing", "golden bytes missing"}
    assert "a plain resolution would do" in findings["migration missing"].text
    assert "tests/golden/v3/KeyGroupClock.hex" in findings["golden bytes missing"].fix


def test_a_renamed_field_of_state_would_be_lost_without_a_function() -> None:
    def version(number: int, name: str) -> bytes:
        field_ = {"name": name, "type": "long", "default": 0}
        return json.dumps({"type": "record", "name": "R", "fields": [field_]}).encode()

    files = {f"state/R/v{number}.avsc": version(number, name) for number, name in ((1, "euros"), (2, "cents"))}
    texts = [finding.text for finding in check(tree_of(files), Functions(set()))]
    assert "no function v1 -> v2 (a plain resolution would lose euros)" in texts


def test_a_file_that_is_no_schema_is_refused(avro: Path) -> None:
    (avro / "state" / "BufferChunk" / "v02.avsc").write_text("{}")
    (avro / "events" / "Broken.avsc").write_text('{"type": "record"}')
    assert {(f.rule, f.path) for f in bad(avro)} == {
        ("no schema", "state/BufferChunk/v02.avsc"),
        ("no schema", "events/Broken.avsc"),
    }


def test_entries_of_a_schema_that_is_not_known_are_refused() -> None:
    tree = tree_of(read_folder(avro_root()))
    known = tree.versions["state/KeyGroupClock"][1].fingerprint
    older, newer = check_state_entries(tree, {known: 7, "ff" * 8: 3}, FUNCTIONS)
    assert (older.ok, older.versions, "7 entries" in older.text) == (True, "v1", True)
    assert (newer.ok, newer.rule, "newer" in newer.text) == (False, "unknown schema", True)


# The command


def test_codes_and_words_of_the_command(
    avro: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "check", "--avro", avro) == 0
    assert run(monkeypatch, "check", "--avro", avro, "--against", avro.parent / "none") == 2
    assert run(monkeypatch, "check", "--avro", avro.parent / "none") == 2
    capsys.readouterr()
    next_event(avro, remove("residentCountryCode"))
    assert run(monkeypatch, "check", "--avro", avro, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["ok"]
    assert "ChangeAddressEvent.residentCountryCode" in {f["path"] for f in told["findings"] if not f["ok"]}
    assert run(monkeypatch, "check", "--avro", avro) == 1
    assert "Do: keep it, or release a version in which it has a default" in capsys.readouterr().out


def test_a_commit_is_compared_with(
    avro: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *arguments], cwd=avro.parent, check=True, capture_output=True)

    git("init", "-q")
    git("add", "avro")
    git("commit", "-qm", "released")
    assert run(monkeypatch, "check", "--avro", avro, "--against", "HEAD") == 0
    # edited, and the list of releases with it: only the commit tells
    change(avro / "events" / "Heartbeat.avsc", add("more", "int", default=0))
    tree = tree_of(read_folder(avro))
    listed = json.loads((avro / RELEASED).read_text())
    edited = tree.versions["events/Heartbeat"][1]
    listed["events/Heartbeat"]["versions"]["1"] = {"fingerprint": edited.fingerprint, "sha256": edited.sha256}
    (avro / RELEASED).write_text(json.dumps(listed))
    assert run(monkeypatch, "check", "--avro", avro) == 0
    capsys.readouterr()
    assert run(monkeypatch, "check", "--avro", avro, "--against", "HEAD", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert [f["rule"] for f in told["findings"] if not f["ok"]] == ["version number reused"]


def test_a_release_is_put_on_the_list_and_then_may_not_be_edited(
    avro: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    next_event(avro, add("floor", "string"))
    assert run(monkeypatch, "release", "--avro", avro) == 1
    next_event(avro, add("floor", "string", default=""))
    capsys.readouterr()
    assert run(monkeypatch, "release", "--avro", avro) == 0
    assert capsys.readouterr().out == "events/ChangeAddressEvent v2\n"
    assert tree_of(read_folder(avro)).current["events/ChangeAddressEvent"] == 1
    assert run(monkeypatch, "release", "--avro", avro, "--current", "events/ChangeAddressEvent=2") == 0
    assert tree_of(read_folder(avro)).current["events/ChangeAddressEvent"] == 2
    next_event(avro, add("storey", "string", default=""))
    assert [f.rule for f in bad(avro)] == ["release edited"]
    assert run(monkeypatch, "release", "--avro", avro, "--current", "state/KeyGroupClock=1") == 2
