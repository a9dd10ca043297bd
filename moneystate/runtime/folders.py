"""The folders of released schemas."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from moneystate.runtime.reference import path_of, service_at

PACKAGE: Final = Path(__file__).resolve().parents[1]


def avro_root() -> Path:
    """The folder of this project's schemas: inside an installed wheel, else at the root of the repository."""
    installed = PACKAGE / "_avro"
    return installed if installed.is_dir() else PACKAGE.parent / "avro"


def folder_of(reference: str) -> Path:
    """The folder of a service's schemas: `avro/NAME` beside its module. This project's own services use its `avro`
    folder instead.

    In an installed wheel, a package of another project may also be named `services`. So a service counts as this
    project's only if the wheel has a folder for it.
    """
    module = import_module(path_of(reference).partition(":")[0])
    assert module.__file__ is not None
    file, name = Path(module.__file__).resolve(), service_at(reference).name
    root = avro_root()
    is_ours = PACKAGE.parent / "services" in file.parents
    is_installed = root.parent == PACKAGE
    return root / name if is_ours and (not is_installed or (root / name).is_dir()) else file.parent / "avro" / name
