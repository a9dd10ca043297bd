"""Converts local folders between the forms that users write and Spark expects."""

from __future__ import annotations

import re
from pathlib import Path

from moneystate.errors import ConfigError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def is_local(text: str) -> bool:
    """Whether an address is a path or has the scheme `file`."""
    scheme = _SCHEME.match(text)
    return scheme is None or scheme[1].lower() == "file"


def local_folder(text: str, name: str) -> Path:
    """A path, `file:/x` or `file:///x`. Raises ConfigError, which calls it `name`, for any other address."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text).absolute()
    path = text[scheme.end() :]
    if scheme[1].lower() == "file" and path.startswith("/"):
        if not path.startswith("//"):
            return Path(path)
        if path.startswith("///"):
            return Path(path[2:])
    raise ConfigError(
        f"{name} {text}: expected a folder or file:///FOLDER, found an address of scheme {scheme[1]}.",
        "give a folder of this machine.",
    )


def spark_path(path: Path) -> str:
    """The folder with its scheme. Spark takes a path without one to be on its default file system (`fs.defaultFS`),
    to which Python never writes. The path is not quoted as in a URI, because Hadoop takes it literally."""
    return f"file://{path.absolute()}"


def existing_part(folder: Path) -> Path:
    """The folder, or the closest one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
