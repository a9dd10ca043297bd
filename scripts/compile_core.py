"""Compiles the pure core with mypyc, where a C compiler is: the same source, two to three times as fast.

`compile_core.py` puts compiled modules beside their sources, `--cached` only those that need no compiling, `--check`
only says (exit code 1) that they are older than their sources, `--clean` removes them. A compiled module hides its
source, so the first two remove what is older than its source. Without a C compiler, or with `MONEYSTATE_PURE=1`, the
core runs interpreted, with the same results. scripts/build_hook.py puts the modules into a wheel.

Compiled modules are kept in the user's cache folder, in a folder `core-DIGEST` of sources, Python and compiler. So
another checkout, another branch and a wheel of the same sources compile nothing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
STAMP: Final = Path("moneystate", "engine", ".compiled")
PACKAGES: Final = ("moneystate", "services")
GROUP: Final = "moneystate_core"  # the library that all compiled modules share
SUFFIX: Final = str(sysconfig.get_config_var("EXT_SUFFIX"))
PURE: Final = "MONEYSTATE_PURE"
KEPT: Final = 8  # folders in the cache; one takes 4 MB


def settings(root: Path = ROOT) -> dict[str, Any]:
    """`modules`: names by folder, `*` for all. `requires`: the packages that compile."""
    listed: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["moneystate"]["compiled"]
    return listed


def sources(root: Path = ROOT) -> list[Path]:
    """The compiled modules, relative to the project's folder."""
    listed = settings(root)["modules"].items()
    names = ((Path(folder) / f"{name}.py", root) for folder, its in listed for name in its)
    paths = [path.relative_to(top) for name, top in names for path in sorted(top.glob(str(name)))]
    return [path for path in paths if path.name != "__init__.py"]


def key(root: Path = ROOT) -> str:
    """Changes with the sources, the Python, and what compiles."""
    compiler = [*settings(root)["requires"], os.environ.get("CC", ""), os.environ.get("CFLAGS", "")]
    digest = hashlib.sha256("\0".join([sys.version, SUFFIX, sysconfig.get_platform(), *compiler]).encode())
    for name, path in [("", Path(__file__)), *((source.as_posix(), root / source) for source in sources(root))]:
        content = path.read_bytes()
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def why_not() -> str:
    """Returns why the core is not compiled here; empty: it can be."""
    if os.environ.get(PURE, "") not in ("", "0"):
        return f"{PURE} is set"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        return "Python's headers are missing"
    return ""


def cache_root() -> Path:
    """As moneystate/devbroker/jars.py has it, which needs packages that a build has not."""
    if named := os.environ.get("MONEYSTATE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moneystate"


def cached(root: Path = ROOT) -> Path:
    """Returns where the compiled modules of these sources are or will be, in the folders of their sources."""
    return cache_root() / f"core-{key(root)[:16]}"


def libraries(root: Path = ROOT) -> dict[Path, Path]:
    """Each compiled module with its place in the project. Compiles them, unless they are cached."""
    folder = cached(root)
    if folder.is_dir():
        os.utime(folder)
    else:
        _compile_into(folder, root)
    return {path: path.relative_to(folder) for path in sorted(folder.rglob(f"*{SUFFIX}"))}


def _compile_into(folder: Path, root: Path) -> None:
    """The folder appears by a rename, so it is complete if it exists."""
    if importlib.util.find_spec("mypyc") is None:
        sys.exit(f"expected mypyc, which compiles the core, found none. Do: install mypy[mypyc], or set {PURE}=1")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        work, made = Path(temporary) / "work", Path(temporary) / "made"
        _compile(root, work)
        for library in work.rglob(f"*{SUFFIX}"):
            if "build" not in library.relative_to(work).parts[:1]:
                (made / library.relative_to(work)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, made / library.relative_to(work))
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process has made the same
                raise
    for old in sorted(folder.parent.glob("core-*"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _compile(root: Path, work: Path) -> None:
    """In a copy: setuptools would take this folder's project for the one to build."""
    for package in PACKAGES:
        shutil.copytree(root / package, work / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    command = [sys.executable, __file__, "--in-place", json.dumps([str(path) for path in sources(root)])]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the core did not compile ({PURE}=1 leaves it out):\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _compile_in_place(names: list[str]) -> None:
    """A C file for each module, so that all processors compile. Runs as fast as one file, and takes less to compile."""
    from mypyc.build import mypycify
    from setuptools import setup
    from setuptools.command.build_ext import build_ext

    class Parallel(build_ext):
        def build_extensions(self) -> None:
            compiler = self.compiler
            compiler.compile = lambda *given, **named: _compile_parallel(compiler, *given, **named)  # type: ignore[method-assign]
            super().build_extensions()

    modules = mypycify(names, opt_level="3", debug_level="0", multi_file=True, group_name=GROUP)
    words = ["build_ext", "--inplace", "--parallel", str(_processors())]
    setup(name=GROUP, packages=[], ext_modules=modules, cmdclass={"build_ext": Parallel}, script_args=words)


def _compile_parallel(
    compiler: Any, files: list[str], output_dir: str | None = None, macros: Any = None, include_dirs: Any = None,
    debug: bool = False, extra_preargs: Any = None, extra_postargs: Any = None, depends: Any = None,
) -> list[str]:  # fmt: skip
    """`compile` of setuptools' compilers, whose loop over the files this replaces."""
    macros, objects, after, options, sources_of = compiler._setup_compile(
        output_dir, macros, include_dirs, files, depends, extra_postargs
    )
    before = compiler._get_cc_args(options, debug, extra_preargs)

    def one(made: str) -> None:
        compiler._compile(made, *sources_of[made], before, after, options)

    with ThreadPoolExecutor(_processors()) as threads:
        list(threads.map(one, objects))
    return list(objects)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- in a checkout ----------------------------------------------------------------------------------------------------


def compiled(root: Path = ROOT) -> list[Path]:
    """All of them, also those of sources that have moved or are no longer compiled."""
    return [*root.glob("*.so"), *(path for package in PACKAGES for path in (root / package).rglob("*.so"))]


def is_fresh(root: Path = ROOT) -> bool:
    """Whether each source has its library, nothing else has one, and none of the sources has changed since."""
    stamp = root / STAMP
    if not stamp.exists() or stamp.read_text() != key(root):
        return False
    stems = {path.parent / path.name.partition(".")[0] for path in compiled(root) if path.parent != root}
    shared = root / f"{GROUP}__mypyc{SUFFIX}"
    return shared.exists() and stems == {root / path.with_suffix("") for path in sources(root)}


def clean(root: Path = ROOT) -> None:
    for path in compiled(root):
        path.unlink()
    (root / STAMP).unlink(missing_ok=True)


def install(root: Path = ROOT) -> None:
    """Puts the compiled modules beside their sources."""
    made = libraries(root)
    clean(root)
    for library, place in made.items():
        shutil.copy(library, root / place)
    (root / STAMP).write_text(key(root))


def main(words: list[str], root: Path = ROOT) -> None:
    if words[:1] == ["--in-place"]:
        _compile_in_place(json.loads(words[1]))
    elif words not in ([], ["--cached"], ["--check"], ["--clean"]):
        sys.exit(__doc__)
    elif words == ["--clean"]:
        clean(root)
    elif words == ["--check"]:
        if compiled(root) and not is_fresh(root):
            sys.exit("the compiled core is older than its source: run make env")
    elif reason := why_not():
        clean(root)
        if not words:
            print(f"{reason}: the core runs interpreted, at about half the speed", file=sys.stderr)
    elif is_fresh(root):
        return
    elif cached(root).is_dir():
        install(root)
    elif words == ["--cached"]:
        clean(root)
    else:
        print("compiling the core (once for these sources, about half a minute)", file=sys.stderr)
        install(root)


if __name__ == "__main__":
    main(sys.argv[1:])
