"""Plain services as the command line names them: MODULE:SERVICE, with a module's name or the path of its file."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from moneystate.api.job import check_runs, plan_of
from moneystate.api.service import Service
from moneystate.errors import ConfigError, MoneystateError

MODULES = "PYTHONPATH"  # how Spark's Python processes on this machine find what this one imports


def load(text: str) -> str:
    """MODULE:SERVICE, with MODULE as it can be imported here and by processes that are started from here. Raises
    ConfigError."""
    module, colon, name = text.rpartition(":")
    if not colon or not module or not name.isidentifier():
        raise ConfigError(f"{text}: expected MODULE:SERVICE.", "for example shop.orders:service or orders.py:service.")
    if module.endswith(".py"):
        root, module = _importable(Path(module), text)
    else:
        root = Path.cwd()
    _add(root)
    try:
        service = getattr(import_module(module), name, None)
    except MoneystateError:
        raise
    except Exception as e:
        raise ConfigError(f"{text}: expected a module that can be imported, but {type(e).__name__}: {e}.") from e
    if not isinstance(service, Service):
        is_what = "there is none" if service is None else f"it is a {type(service).__name__}"
        raise ConfigError(f"{text}: expected a service with the name {name}, {is_what}.", "name what ms.Service made.")
    path = f"{module}:{name}"
    check_runs(service)
    plan_of(path)  # raises ServiceError for what is declared wrongly
    return path


def _importable(file: Path, text: str) -> tuple[Path, str]:
    """The folder to import from, and the module's name: a file of a package is imported as a part of it."""
    if not file.is_file():
        raise ConfigError(f"{text}: expected a file {file}, there is none.")
    file = file.resolve()
    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    return root, ".".join(parts)


def _add(root: Path) -> None:
    folder = str(root)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    known = [part for part in os.environ.get(MODULES, "").split(os.pathsep) if part]
    if folder not in known:
        os.environ[MODULES] = os.pathsep.join([folder, *known])
