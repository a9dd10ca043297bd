"""The record of a running server in its data folder, with which any later process can find and stop it.

A process is identified by its id *and* its start time *and* the configuration file on its command line. Process ids are
reused, and a process that has the id of a former server must never be signalled.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

RECORD_FILE = "broker.json"

# psutil computes the start time from the boot time, which changes a little when the system's clock is set.
START_TIME_TOLERANCE_S = 5.0


@dataclass(frozen=True)
class ServerRecord:
    """A running server."""

    pid: int
    port: int
    created_s: float  # start of the process in seconds since the epoch, as psutil reports it

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def config_file(data_dir: Path) -> Path:
    """The server's configuration file. Its path on a command line identifies a process as the server of this folder."""
    return data_dir / "server.properties"


def write_record(data_dir: Path, pid: int, port: int) -> ServerRecord:
    record = ServerRecord(pid, port, psutil.Process(pid).create_time())
    temporary = data_dir / f"{RECORD_FILE}.new"
    temporary.write_text(json.dumps(asdict(record)))
    os.replace(temporary, data_dir / RECORD_FILE)
    return record


def read_record(data_dir: Path) -> ServerRecord | None:
    """The last record, whose server may have ended long ago; None: there is no readable record."""
    try:
        return ServerRecord(**json.loads((data_dir / RECORD_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def remove_record(data_dir: Path) -> None:
    (data_dir / RECORD_FILE).unlink(missing_ok=True)


def running_process(data_dir: Path) -> tuple[ServerRecord, psutil.Process] | None:
    """The server that runs on this folder; None: never started, stopped, crashed, or its id belongs to another
    process."""
    record = read_record(data_dir)
    if record is None:
        return None
    try:
        process = psutil.Process(record.pid)
        same_start = abs(process.create_time() - record.created_s) <= START_TIME_TOLERANCE_S
        if same_start and str(config_file(data_dir)) in process.cmdline():
            return record, process
    except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError, TypeError):
        # A zombie has no command line: psutil raises ZombieProcess, which is a NoSuchProcess, or returns an empty one.
        return None
    return None
