"""The server's process: found by the file that it keeps in its data folder, and ended by its id."""

from __future__ import annotations

import os
import pwd
import signal
import tempfile
from pathlib import Path
from typing import Any, Final

import psutil

# A clean stop takes 0.1 s, after a load of dirty buffers longer.
STOP_TIMEOUT_S: Final = 20.0
ENTERED_BY_ALL: Final = (Path("/tmp"), Path("/var/tmp"))
USERS: Final = ("postgres", "nobody")


def as_server(uid: int) -> dict[str, Any]:
    """The arguments of a subprocess that runs as a user other than root, which PostgreSQL refuses."""
    if uid != 0:
        return {}
    owner = server_user()
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


def server_user() -> pwd.struct_passwd:
    """The first of USERS that exists. POSIX systems have `nobody`."""
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(names[name] for name in USERS if name in names)


def give(path: Path) -> None:
    """Makes the file or folder the server's."""
    if os.getuid() == 0:
        owner = server_user()
        os.chown(path, owner.pw_uid, owner.pw_gid)


def reachable(folder: Path) -> bool:
    """Whether any user can enter the folder, through all folders above it."""
    return all(one.stat().st_mode & 0o005 == 0o005 for one in [folder.resolve(), *folder.resolve().parents])


def home_root() -> Path:
    """Returns where a server's folder goes: the folder for temporary files, or one that the server's user can enter."""
    root = Path(tempfile.gettempdir())
    if os.getuid() != 0:
        return root
    return next((one for one in (root, *ENTERED_BY_ALL) if one.is_dir() and reachable(one)), root)


def running(data: Path) -> psutil.Process | None:
    """The server on this data folder. Its id alone proves nothing: ids are reused."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
        process = psutil.Process(pid)
        return process if str(data) in process.cmdline() else None
    except (OSError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def end(data: Path, how: signal.Signals) -> None:
    """SIGINT: cut connections and shut down cleanly. SIGQUIT: immediately, like a crash of all its processes."""
    process = running(data)
    if process is None:
        return
    children = process.children(recursive=True)
    try:
        process.send_signal(how)  # psutil checks again that the id has not been taken by another process
        process.wait(STOP_TIMEOUT_S)
    except psutil.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)
        process.wait(STOP_TIMEOUT_S)
    except psutil.NoSuchProcess:
        pass
    psutil.wait_procs(children, STOP_TIMEOUT_S)
