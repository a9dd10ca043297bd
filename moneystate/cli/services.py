"""Resolves names of services: a short name, or MODULE:NAME with a module's name or the path of its file. NAME
is a service or its factory.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from moneystate.api.rules import file_name, plain, read
from moneystate.cli.durations import parse_ms
from moneystate.cli.known_services import KNOWN
from moneystate.cli.option import check_given
from moneystate.cli.service_config import check_used, service_tables
from moneystate.errors import ConfigError, MoneystateError
from moneystate.runtime.folders import PACKAGE
from moneystate.runtime.job import check_runs
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import is_factory, made_at, with_rules

MODULES = "PYTHONPATH"  # how Spark's Python processes on this machine find what this one imports
NO_TABLES: Mapping[str, Mapping[str, Any]] = {}


def load(text: str, tables: Mapping[str, Mapping[str, Any]] = NO_TABLES) -> str:
    """The reference of the one service that `text` stands for: of that name, where a short name stands for several.
    Raises ConfigError."""
    references = [_loaded(path, tables) for path in _of_name(text)] or load_all(text, tables)
    if len(references) > 1:
        names = ", ".join(made_at(reference).service.name for reference in references)
        raise ConfigError(f"{text}: expected one service, it stands for {names}.", f"give {' or '.join(KNOWN[text])}.")
    return references[0]


def load_all(text: str, tables: Mapping[str, Mapping[str, Any]] = NO_TABLES) -> list[str]:
    """The references of the services that `text` stands for; `tables`: of a configuration file, by the short name or
    the service's name. Their modules can be imported here and by processes that are started from here. Raises
    ConfigError."""
    return [_loaded(path, tables) for path in KNOWN.get(text) or _of_name(text) or [_imported(text)]]


def _of_name(text: str) -> list[str]:
    """The one of this project's services that has the name."""
    paths = [] if ":" in text else [path for paths in KNOWN.values() for path in paths]
    return [path for path in paths if made_at(path).service.name == text]


def _loaded(path: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    name = _table_of(path)
    reference = _configured(path, name, tables[name]) if name in tables else path
    check_runs(made_at(reference).service)
    plan_of(reference)  # raises ServiceError for what is declared wrongly
    return reference


def _table_of(path: str) -> str:
    """The name of a service's table in a configuration file: its short name, which it may share, else its own."""
    return next((name for name, paths in KNOWN.items() if path in paths), "") or made_at(path).service.name


def chosen(context: typer.Context, text: str) -> str:
    """The reference of a command's --service with its --config. Raises ConfigError."""
    check_given(service=text)
    tables = service_tables(context)
    reference = load(text, tables)
    check_used(context, tables, {text, *KNOWN, made_at(reference).service.name})
    return reference


def chosen_if_given(context: typer.Context, text: str) -> str:
    """The same for a --service that may be left out; empty: it is."""
    return chosen(context, text) if text else ""


def _configured(path: str, name: str, table: Mapping[str, Any]) -> str:
    rules = made_at(path).rules
    if rules is None:
        raise ConfigError(f"[{name}]: the service {name} has no rules.", "remove the table.")
    complete = plain(read(type(rules), table, f"[{name}]", parse_ms, rules))
    given = {key.replace("-", "_") for key in table}
    return with_rules(path, {rule: value for rule, value in complete.items() if file_name(rule) in given})


def _imported(text: str) -> str:
    """MODULE:NAME."""
    module, colon, name = text.rpartition(":")
    if not colon or not module or not name.isidentifier():
        raise ConfigError(
            f"{text}: expected MODULE:SERVICE{_or_known()}.", "for example shop.orders:service or orders.py:service."
        )
    if module.endswith(".py"):
        root, module = _importable(Path(module), text)
    else:
        root = Path.cwd()
    _add(root)
    path = f"{module}:{name}"
    try:
        import_module(module)
        if is_factory(path):
            made_at(path)
    except MoneystateError:
        raise
    except Exception as e:
        line, told = _line(e), str(e).rstrip(".")
        raise ConfigError(
            f"{text}: expected a module that can be imported, but {line}{type(e).__name__}: {told}.",
            "correct that line." if line else _where_to_look(module),
        ) from e
    return path


def _line(error: Exception) -> str:
    """The last line of the user's own code that the error came through; empty where none was run."""
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '?').name}:{error.lineno}: "
    frames = traceback.extract_tb(error.__traceback__)
    others = (PACKAGE, Path(sysconfig.get_path("stdlib")).resolve())
    own = [
        f for f in frames if not f.filename.startswith("<") and not {*others} & {*Path(f.filename).resolve().parents}
    ]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}: " if own else ""


def _where_to_look(module: str) -> str:
    first = module.partition(".")[0]
    there = getattr(sys.modules.get(first), "__file__", None)
    if there is not None and Path(there).resolve().parent.parent != Path.cwd():
        return f"rename the package {first}: another one of that name is in {Path(there).parent}."
    return "give the path of its file, or start where it can be imported."


def _or_known() -> str:
    return f" or one of {', '.join(KNOWN)}" if KNOWN else ""


def _importable(file: Path, text: str) -> tuple[Path, str]:
    """The folder to import from, and the module's name: a file of a package is imported as a part of it."""
    if not file.is_file():
        raise ConfigError(f"{text}: expected a file {file}, found none.", "check the path.")
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
