"""Files: of checkpoints, savepoints and archives, and those that users write."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from moneystate.bootstrap import files as archives
from moneystate.bootstrap import history
from moneystate.bootstrap.files import ArchivedRecord
from moneystate.bootstrap.layout import RangeNote, find_archives
from moneystate.cli.service_config import read_file
from moneystate.engine.plan import Plan, rules_hash
from moneystate.errors import ArchiveError, CheckpointError, ConfigError, SavepointError
from moneystate.job.checkpoint import Checkpoint
from moneystate.kafka.starting import offsets_from_file
from moneystate.savepoint import format as savepoints
from moneystate.savepoint.format import Savepoint
from moneystate.savepoint.manifest import BOOTSTRAP, Manifest
from moneystate.serving import token_keys
from tests.engine.test_plan import plans
from tests.fuzz.mutation import fresh, mutated, reshaped
from tests.fuzz.target import all_of, result_of, target


def in_folder(check: Callable[[Path], None]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="moneystate-fuzz-"))
    try:
        check(folder)
    finally:
        shutil.rmtree(folder)


def dumped(document: Any) -> bytes:
    return json.dumps(document).encode()


DEEP = b"[" * 3_000


def loaded(content: bytes) -> Any:
    return json.loads(content) if content[:1] == b"{" else content.decode()


def damaged(documents: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """JSON texts with other values inside, or damaged bytes."""
    return mutated(documents.map(dumped)) | reshaped(documents).map(dumped)


# Checkpoints

RULES = {"bound_ms": 20_000}
OWN = "moneystate/"
CHECKPOINT: dict[str, Any] = {
    "metadata": {"id": "e"},
    OWN + "settings.json": {"format": 1, "key_groups": 4},
    OWN + "code.json": {"code": "c"},
    OWN + "awaited.json": {"batch": 3, "open": 2},
    OWN + f"rules/{rules_hash(RULES)}.json": RULES,
}


@st.composite
def checkpoints(draw: st.DrawFn) -> dict[str, bytes]:
    """The files of a checkpoint, one of them damaged."""
    offset = draw(plans()).to_offset() | {"rules": rules_hash(RULES)}
    contents = dict(CHECKPOINT)
    contents[OWN + "start.json"] = {"offset": offset, "superseded": ["d"], "savepoint": None}
    files = {name: json.dumps(content).encode() for name, content in contents.items()}
    head = b'v1\n{"batchWatermarkMs":0}\n'
    files |= {f"offsets/{n}": head + json.dumps(offset).encode() for n in (2, 3)}
    files["commits/2"] = files["commits/3"] = b"v1\n{}"
    name = draw(st.sampled_from(sorted(files)))
    if name.startswith("offsets/"):
        files[name] = draw(mutated(st.just(files[name])) | reshaped(fresh(lambda: offset)).map(dumped))
    else:
        files[name] = draw(damaged(fresh(lambda: loaded(files[name]))))
    if draw(st.booleans()):
        files["offsets/²"] = b""
    return files


@target("files.checkpoint", checkpoints(), share=0.3)
def read_checkpoint(files: dict[str, bytes]) -> None:
    def check(folder: Path) -> None:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        read = Checkpoint(str(folder))
        for call in (
            read.settings, read.start, read.latest_rules, read.epoch, read.check_version, read.code, read.open_requests,
            read.planned_rules, lambda: read.check_not_drained(False, 7), lambda: read.check_rules(RULES),
            lambda: read.check_settings({"format": 1}), lambda: read.changed_rules(RULES),
            lambda: read.offset(-1), lambda: read.offset(2), lambda: read.offset(3), lambda: read.replan(RULES),
        ):  # fmt: skip
            result_of(call, CheckpointError)

    in_folder(check)


# Savepoints


def written_savepoint(folder: Path) -> Path:
    out = folder / "out"
    partial = savepoints.begin(out)
    state = [savepoints.write_state(partial, group, [(b"k", b"v"), (b"l", b"")]) for group in range(2)]
    output = [savepoints.write_output(partial, group, [(0, b"k", None, [("h", b"x")])]) for group in range(2)]
    plan = Plan("r", {}, {}).to_offset()
    made = Manifest(BOOTSTRAP, "2020", "job", ["c301"], RULES, 2, 1, plan, 5, {"n": 1}, "f", state, output, ["out"])
    savepoints.finish(out, made)
    return out


def manifest() -> Any:
    folder = Path(tempfile.mkdtemp(prefix="moneystate-fuzz-"))
    try:
        return json.loads((written_savepoint(folder) / "manifest.json").read_text())
    finally:
        shutil.rmtree(folder)


MANIFEST_TEXT = json.dumps(manifest())


def read_all(folder: Path) -> None:
    opened = Savepoint(folder)
    for group in range(opened.manifest.key_groups):
        all_of(opened.entries(group))
        all_of(opened.outputs(group))


@target("files.manifest", damaged(fresh(lambda: json.loads(MANIFEST_TEXT))), DEEP, share=0.2)
def read_manifest(content: bytes) -> None:
    def check(folder: Path) -> None:
        out = written_savepoint(folder)
        (out / "manifest.json").write_bytes(content)
        result_of(lambda: read_all(out), SavepointError)

    in_folder(check)


@target("files.savepoint", st.tuples(st.sampled_from(["state", "output"]), st.data()), share=0.1)
def read_savepoint(given: tuple[str, st.DataObject]) -> None:
    kind, data = given

    def check(folder: Path) -> None:
        out = written_savepoint(folder)
        file = out / kind / "group-00001.avro"
        file.write_bytes(data.draw(mutated(st.just(file.read_bytes()))))
        result_of(lambda: read_all(out), SavepointError)

    in_folder(check)


# Archives

HEADERS = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=2)
RECORDS = st.lists(
    st.builds(
        ArchivedRecord,
        st.integers(0, 2**62),
        st.integers(0, 2**50),
        st.sampled_from([0, 1]),
        st.none() | st.binary(max_size=6),
        st.none() | st.binary(max_size=6),
        HEADERS,
        st.just(True),
    ),
    max_size=4,
)


def written(name: str, records: list[ArchivedRecord]) -> bytes:
    folder = Path(tempfile.mkdtemp(prefix="moneystate-fuzz-"))
    try:
        archives.write_file(folder / name, records)
        return (folder / name).read_bytes()
    finally:
        shutil.rmtree(folder)


def records_in(name: str, content: bytes) -> list[ArchivedRecord]:
    got: list[ArchivedRecord] = []

    def check(folder: Path) -> None:
        (folder / name).write_bytes(content)
        got.extend(all_of(archives.read_file(folder / name)))

    in_folder(check)
    return got


def archive_target(form: str, share: float) -> None:
    name = f"0-9.{form}"

    @target(f"files.archive.{form}", mutated(RECORDS.map(lambda records: written(name, records))), share=share)
    def read_archive(content: bytes) -> None:
        records = result_of(lambda: records_in(name, content), ArchiveError)
        assert records is None or all(isinstance(record, ArchivedRecord) for record in records)

    @target(f"files.archive.{form}.round", RECORDS, share=share)
    def archive_round(records: list[ArchivedRecord]) -> None:
        assert records_in(name, written(name, records)) == records


for form, share in ((archives.AVRO, 0.5), (archives.PARQUET, 0.2), (archives.JSON_LINES, 0.5)):
    archive_target(form, share)


NOTE = {"start": 0, "end": 2, "initialHigh": 5, "topicId": "t", "version": 1, "files": {"0-1.jsonl": {"records": 2}}}
NAMES = st.sampled_from(["0", "1", "²", "a", "00", "-1"])
FILES = st.sampled_from(["0-1.jsonl", "2-3.jsonl", "0-5.avro", "².jsonl", "a².jsonl", "x", "٣-٤.jsonl", "5-1.jsonl"])


@target(
    "files.note",
    st.tuples(NAMES, st.lists(FILES, max_size=2), damaged(fresh(lambda: json.loads(json.dumps(NOTE))))),
    share=0.4,
)
def read_archive_folder(given: tuple[str, list[str], bytes]) -> None:
    number, names, note = given

    def check(folder: Path) -> None:
        place = folder / "t" / number
        place.mkdir(parents=True)
        for name in [*names, "0-1.jsonl"]:
            (place / name).write_bytes(b"")
        (place / "_range.json").write_bytes(note)
        got = result_of(lambda: find_archives([folder], ["t"]), ArchiveError)
        for partition in (got or {}).values():
            assert all(type(file.records) in (int, type(None)) for file in partition.files)
            assert all(type(note.initial_high) in (int, type(None)) for note in partition.notes)
            assert all(isinstance(note, RangeNote) for note in partition.notes)

    in_folder(check)


# Files that users write


@target("files.offsets", damaged(fresh(lambda: {"t": {"0": 5, "1": 7}, "u": {"0": None}})), share=0.5)
def read_offsets(content: bytes) -> None:
    def check(folder: Path) -> None:
        file = folder / "offsets.json"
        file.write_bytes(content)
        for call in (
            lambda: offsets_from_file(file, ["t", "u"], "--x"),
            lambda: history.read_initial_highs(file, ["t", "u"]),
            lambda: history.parse_cut(str(file), ["t", "u"]),
        ):
            got = result_of(call, ConfigError)
            if isinstance(got, dict):
                assert all(type(value) in (int, type(None)) for value in got.values())

    in_folder(check)


TIMES = mutated(st.datetimes().map(lambda t: (t.isoformat() + "+00:00").encode())).map(
    lambda content: content.decode(errors="replace")
)


@target("files.cut", st.text(max_size=30) | TIMES, "x" * 5_000, "\0")
def read_cut(text: str) -> None:
    result_of(lambda: history.parse_cut(text, []), ConfigError)


TOML = b'[run]\nbound = "20s"\n[joining]\nwait = "5m"\nids = [1, 2.5]\nat = 2020-01-01T00:00:00Z\n'


@target("files.toml", mutated(st.just(TOML)), b"\xff", b"a = " + b"[" * 3_000, b"a = " + b"9" * 5_000, share=0.5)
def read_toml(content: bytes) -> None:
    def check(folder: Path) -> None:
        (folder / "config.toml").write_bytes(content)
        result_of(lambda: read_file(folder / "config.toml"), ConfigError)

    in_folder(check)


JWK = {
    "kty": "OKP", "crv": "Ed25519", "kid": "a", "use": "sig", "alg": "EdDSA",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
}  # fmt: skip
PEM = b"""-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
"""


@target(
    "files.keys", damaged(fresh(lambda: {"keys": [dict(JWK), dict(JWK) | {"kid": "b"}]})) | mutated(st.just(PEM)),
    share=0.3,
)  # fmt: skip
def read_token_keys(content: bytes) -> None:
    def check(folder: Path) -> None:
        (folder / "keys").write_bytes(content)
        result_of(lambda: token_keys.read_keys(str(folder / "keys")), ConfigError)

    in_folder(check)
