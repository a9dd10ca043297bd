"""The compiled core in a checkout: which modules it has, when it is older than its sources, where it is kept.

And the hook that puts it into a wheel. Nothing is compiled here; tests/demo/test_wheel.py runs what is.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = """[tool.moneystate.compiled]
requires = ["mypy"]
[tool.moneystate.compiled.modules]
"moneystate/engine" = ["*"]
"services/one" = ["b"]
"""
MODULES = ("moneystate/engine/a", "services/one/b")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    yield importlib.import_module
    for name in ("compile_core", "build_hook"):
        sys.modules.pop(name, None)


@pytest.fixture
def core(scripts: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """It believes that there is a compiler, and has a cache of its own."""
    module = scripts("compile_core")
    monkeypatch.setenv("MONEYSTATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MONEYSTATE_PURE", raising=False)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("moneystate/engine/a", "moneystate/engine/__init__", "services/one/b", "services/one/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def put_into_the_cache(core: Any, checkout: Path) -> None:
    for name in (*MODULES, f"{core.GROUP}__mypyc"):
        library = core.cached(checkout) / f"{name}{core.SUFFIX}"
        library.parent.mkdir(parents=True, exist_ok=True)
        library.write_text("library")


def test_each_listed_module_exists_and_no_package_is_compiled(core: Any) -> None:
    for folder, names in core.settings()["modules"].items():
        for name in names:
            assert [*(ROOT / folder).glob(f"{name}.py")], f"{folder}/{name}"
    names = [path.as_posix() for path in core.sources()]
    assert len(names) == len(set(names))
    assert "moneystate/engine/order.py" in names
    assert not any(name.endswith("__init__.py") for name in names)


def test_modules_of_the_same_sources_come_from_the_cache(core: Any, checkout: Path) -> None:
    put_into_the_cache(core, checkout)
    assert sorted(str(path) for path in core.libraries(checkout).values()) == sorted(
        f"{name}{core.SUFFIX}" for name in (*MODULES, f"{core.GROUP}__mypyc")
    )
    core.install(checkout)
    assert core.is_fresh(checkout)
    assert (checkout / f"moneystate/engine/a{core.SUFFIX}").read_text() == "library"


@pytest.mark.parametrize("changed", ["moneystate/engine/a.py", "services/one/b.py", "pyproject.toml"])
def test_a_changed_source_or_list_makes_them_old(core: Any, checkout: Path, changed: str) -> None:
    put_into_the_cache(core, checkout)
    core.install(checkout)
    place = core.cached(checkout)
    text = (checkout / changed).read_text()
    (checkout / changed).write_text(text.replace('["mypy"]', '["mypy", "more"]') if text else "a = 1")
    assert not core.is_fresh(checkout)
    assert core.cached(checkout) != place
    (checkout / changed).write_text(text)
    assert core.is_fresh(checkout)
    assert core.cached(checkout) == place


@pytest.mark.parametrize("stray", ["services/one/c", "moneystate/gone", "services/one/b.other"])
def test_a_library_without_a_listed_source_is_not_fresh_and_is_removed(core: Any, checkout: Path, stray: str) -> None:
    put_into_the_cache(core, checkout)
    core.install(checkout)
    (checkout / f"{stray}.so").touch()
    if not stray.endswith("other"):  # a library for another Python hides nothing
        assert not core.is_fresh(checkout)
    core.clean(checkout)
    assert core.compiled(checkout) == []
    assert not core.is_fresh(checkout)


def test_a_missing_library_is_not_fresh(core: Any, checkout: Path) -> None:
    put_into_the_cache(core, checkout)
    core.install(checkout)
    (checkout / f"{core.GROUP}__mypyc{core.SUFFIX}").unlink()
    assert not core.is_fresh(checkout)


def test_what_is_older_than_its_source_is_removed_though_nothing_is_compiled(
    core: Any, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "why_not", lambda: "")
    put_into_the_cache(core, checkout)
    core.main(["--cached"], checkout)
    assert core.is_fresh(checkout)
    core.main(["--check"], checkout)
    (checkout / "services/one/b.py").write_text("b = 2")
    with pytest.raises(SystemExit, match="older than its source"):
        core.main(["--check"], checkout)
    core.main(["--cached"], checkout)
    assert core.compiled(checkout) == []
    core.main(["--check"], checkout)


def test_without_a_compiler_no_compiled_module_stays_and_a_line_says_so(
    core: Any, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_into_the_cache(core, checkout)
    core.install(checkout)
    monkeypatch.setattr(core, "why_not", lambda: "there is no C compiler (cc)")
    core.main([], checkout)
    assert core.compiled(checkout) == []
    assert capsys.readouterr().err.startswith("there is no C compiler (cc): the core runs interpreted")


def test_the_cache_keeps_the_newest(core: Any, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_nothing(root: Path, work: Path) -> None:
        for name in (*MODULES, "build/a"):
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / f"{name}{core.SUFFIX}").touch()

    monkeypatch.setattr(core, "_compile", compile_nothing)
    made = []
    for number in range(core.KEPT + 2):
        (checkout / "services/one/b.py").write_text(f"b = {number}")
        assert sorted(map(str, core.libraries(checkout).values())) == [f"{name}{core.SUFFIX}" for name in MODULES]
        made.append(core.cached(checkout))
        os.utime(made[-1], (number, number))
    assert sorted(path for path in core.cache_root().iterdir()) == sorted(made[2:])


def test_there_is_a_reason_for_each_core_that_is_not_compiled(
    core: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", f"{tmp_path / 'none'} -m64")
    assert core.why_not() == f"there is no C compiler ({tmp_path / 'none'})"
    monkeypatch.setenv("MONEYSTATE_PURE", "1")
    assert core.why_not() == "MONEYSTATE_PURE is set"
    monkeypatch.setenv("MONEYSTATE_PURE", "0")
    (tmp_path / "none").touch(0o755)
    assert core.why_not() in ("", "Python's headers are missing")


class App:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, text: str) -> None:
        self.warnings.append(text)


def test_the_hook_adds_the_modules_to_a_wheel_for_this_python(
    core: Any, scripts: Any, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into_the_cache(core, checkout)
    monkeypatch.setattr(core, "why_not", lambda: "")
    hook = scripts("build_hook").CompiledCore(str(checkout), {}, None, None, "", "wheel", App())
    assert hook.dependencies() == ["mypy"]
    data: dict[str, Any] = {"force_include": {}, "pure_python": True, "infer_tag": False}
    hook.initialize("standard", data)
    assert (data["pure_python"], data["infer_tag"]) == (False, True)
    assert data["force_include"] == {str(path): str(place) for path, place in core.libraries(checkout).items()}
    assert len(data["force_include"]) == len(MODULES) + 1


@pytest.mark.parametrize(("version", "reason"), [("editable", ""), ("standard", "MONEYSTATE_PURE is set")])
def test_the_hook_leaves_an_editable_install_and_a_pure_wheel_alone(
    core: Any, scripts: Any, checkout: Path, monkeypatch: pytest.MonkeyPatch, version: str, reason: str
) -> None:
    monkeypatch.setattr(core, "why_not", lambda: reason)
    app = App()
    hook = scripts("build_hook").CompiledCore(str(checkout), {}, None, None, "", "wheel", app)
    assert hook.dependencies() == ([] if reason else ["mypy"])
    data: dict[str, Any] = {"force_include": {}, "pure_python": True, "infer_tag": False}
    hook.initialize(version, data)
    assert data == {"force_include": {}, "pure_python": True, "infer_tag": False}
    assert [reason in warning for warning in app.warnings] == [True] * bool(reason)
