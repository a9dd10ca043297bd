"""The checks of the supply chain: accepted advisories, locks, and a complete SBOM."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
LOCK = """
pillow==13.0.0 \\
    --hash=sha256:{0}
    # via matplotlib
matplotlib==3.11.2 \\
    --hash=sha256:{0}
    # via -r requirements.in
typer==0.29.2 ; python_version >= '3.12' \\
    --hash=sha256:{0}
    # via moneystate (pyproject.toml)
rich==15.0.0 \\
    --hash=sha256:{0}
    # via
    #   -r requirements.in
    #   typer
""".format("0" * 64)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield importlib.import_module
    for name in ("lock_file", "advisories", "check_audit", "check_lock", "make_sbom", "check_sbom"):
        sys.modules.pop(name, None)


def test_an_accepted_advisory_is_about_a_locked_package(scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = scripts("check_audit")
    monkeypatch.setattr(audit, "accepted", lambda: [{"id": "A", "package": "pillow"}, {"id": "B", "package": "other"}])
    assert audit.problems(LOCK) == ["B: other is not locked. Do: remove it"]


@pytest.mark.parametrize(
    "text", ['[[advisory]]\nid = "A"\npackage = "pillow"\ndate = 2026-11-23', '[[advisory]]\nid = "A"\nreason = ""']
)
def test_an_accepted_advisory_needs_a_reason_and_a_date(text: str, scripts: Any, tmp_path: Path) -> None:
    (tmp_path / "accepted.toml").write_text(text)
    with pytest.raises(ValueError, match="expected id, package, reason and date"):
        scripts("advisories").accepted(tmp_path / "accepted.toml")


def test_the_locks_are_apart_and_have_what_is_asked_for(scripts: Any) -> None:
    lock_file, check = scripts("lock_file"), scripts("check_lock")
    pins = lock_file.pins(LOCK)
    assert [(pin.name, pin.version) for pin in pins] == [
        ("pillow", "13.0.0"), ("matplotlib", "3.11.2"), ("typer", "0.29.2"), ("rich", "15.0.0"),
    ]  # fmt: skip
    run_time, development = lock_file.RUN_TIME.read_text(), lock_file.DEVELOPMENT.read_text()
    assert check.problems(run_time, development) == {"requirements.lock": [], "requirements-dev.lock": []}
    typer = "\n".join(entry for entry in run_time.split("\n") if not entry.startswith("    #"))
    without = re.sub(r"(?m)^typer==[^\n]*\n(    --hash[^\n]*\n)+", "", typer)
    told = check.problems(without, development + LOCK)
    assert told["requirements.lock"] == ["typer is asked for, locked is nothing"]
    assert told["requirements-dev.lock"] == ["rich is in requirements.lock, too"]
    told = check.problems(run_time, re.sub(r"(?m)^mypy==\S+", "mypy==1.0", development))
    assert told["requirements-dev.lock"] == ["mypy[mypyc]==2.4.1 is asked for, locked is 1.0"]


def test_a_missing_package_or_jar_is_a_problem(scripts: Any) -> None:
    made = scripts("make_sbom")
    text = made.text_of(made.bom())
    check = scripts("check_sbom")
    assert check.problems(text) == []
    document = json.loads(text)
    document["components"] = [c for c in document["components"] if c["name"] != "typer"]
    spark = next(c for c in document["components"] if c["name"] == "pyspark")
    spark["components"] = [part for part in spark["components"] if part["name"] != "spark-core_2.13"]
    assert [problem.partition("-")[0].partition("=")[0] for problem in check.problems(json.dumps(document))] == [
        "typer",
        "spark",
    ]
