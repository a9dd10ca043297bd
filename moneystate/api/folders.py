"""Where released schemas are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from moneystate.api.reference import path_of, service_at

OF_THIS_PROJECT: Final = "services."
PACKAGE: Final = Path(__file__).resolve().parents[1]


def avro_root() -> Path:
    """The folder of this project's schemas: inside an installed wheel, else at the root of the repository."""
    installed = PACKAGE / "_avro"
    return installed if installed.is_dir() else PACKAGE.parent / "avro"


def folder_of(reference: str) -> Path:
    """Of the schemas of a service: `avro/NAME` beside its module; of this project's services, in its folder."""
    module = import_module(path_of(reference).partition(":")[0])
    assert module.__file__ is not None
    file, name = Path(module.__file__).resolve(), service_at(reference).name
    if module.__name__.startswith(OF_THIS_PROJECT) and PACKAGE.parent in file.parents:
        return avro_root() / name
    return file.parent / "avro" / name
