"""The states that can be compared: those of query servers, and savepoints and checkpoints that the console was given.

Values and entries of maps are compared, because a query server has them and a savepoint has them. Timers and the ids
that `unique` has seen are only in a savepoint: `moneystate checkpoint compare` compares those of two savepoints.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from moneystate.console.comparison import Item
from moneystate.console.deployments import export
from moneystate.console.servers import Asked, Server, Servers
from moneystate.engine.avro import Malformed
from moneystate.engine.items import NO_TIME
from moneystate.errors import CheckpointError, ConfigError, MoneystateError
from moneystate.runtime.job import service_spec
from moneystate.runtime.state_model import ServiceState
from moneystate.savepoint.format import Savepoint
from moneystate.serving.arguments import version_text
from moneystate.state.v1 import header_pb2
from moneystate.state.v1 import state_pb2 as s

PAGE: Final = 1_000


@dataclass(frozen=True)
class Moment:
    """Describes where in the logs a state is. `version`: EPOCH/BATCH of a server's; empty: a savepoint's."""

    version: str
    watermark_ms: int | None


class State(Protocol):
    """One of the two states that are compared. Its methods block."""

    def open(self) -> Moment:
        """Fixes what is compared. Raises Asked and MoneystateError."""
        ...

    def records(self, states: Sequence[str]) -> Iterator[list[Item]]:
        """The records of these values and maps, in any order. Raises Asked and MoneystateError."""
        ...

    def close(self) -> None:
        """Removes what it has made to read them."""
        ...


class ServedState:
    """The state of a query server at one version, with what the caller's token may read."""

    def __init__(self, servers: Servers, server: Server, token: str, position: header_pb2.At | None) -> None:
        self.servers = servers
        self.server = server
        self.token = token
        self.position = position

    def open(self) -> Moment:
        names = [one.name for one in self.server.schema.states]
        if not names:
            raise Asked("INVALID_ARGUMENT", f"{self.server.service} declares no state, so there is nothing to compare.")
        header = self._page(names[0], "", 1).header
        self.position = header_pb2.At(version=header.version)
        watermark_ms = header.watermark_ms if header.HasField("watermark_ms") else None
        return Moment(version_text(header.version), watermark_ms)

    def records(self, states: Sequence[str]) -> Iterator[list[Item]]:
        for name in states:
            token = ""
            while True:
                page = self._page(name, token, PAGE)
                yield [Item(one.name.state, one.name.key, one.name.id, _content(one)) for one in page.records]
                token = page.next_page_token
                if not token:
                    break

    def close(self) -> None:
        """It has made nothing."""

    def _page(self, name: str, token: str, size: int) -> Any:
        request = s.ListRequest(state=name, page_size=size, page_token=token, at=None if token else self.position)
        return self.servers.call(self.server.address, "State.List", request, self.token)


def _content(record: s.Record) -> str:
    """A record that the server cannot read differs from every other one."""
    return record.json if record.HasField("json") else f"cannot be read: {record.unreadable}"


class SavedState:
    """A savepoint's state. `reference`: of its service."""

    def __init__(self, folder: Path, reference: str) -> None:
        self.folder = folder
        self.reference = reference

    def open(self) -> Moment:
        self.savepoint = Savepoint(self.folder)
        watermark = self.savepoint.manifest.watermark
        return Moment("", None if watermark == NO_TIME else watermark)

    def records(self, states: Sequence[str]) -> Iterator[list[Item]]:
        manifest = self.savepoint.manifest
        state, wanted = service_spec(self.reference, manifest.rules).state, frozenset(states)
        assert isinstance(state, ServiceState)
        for group in range(manifest.key_groups):
            try:
                its = state.records(self.savepoint.entries(group), manifest.watermark, manifest.rules)
                yield [Item(*one) for one in its if one[0] in wanted]
            except Malformed as e:
                raise CheckpointError(
                    f"{self.folder}: expected entries of {self.reference}, but {e}.",
                    "use the program that made the savepoint.",
                ) from None

    def close(self) -> None:
        """The savepoint stays."""


class StoppedState(SavedState):
    """The state of a stopped job's checkpoint, by a savepoint that lives as long as this. `command`: makes it in the
    folder that follows."""

    def __init__(self, command: Sequence[str], reference: str) -> None:
        self.command = command
        self.scratch = tempfile.TemporaryDirectory(prefix="moneystate-")
        super().__init__(Path(self.scratch.name) / "savepoint", reference)

    def open(self) -> Moment:
        export(self.command, str(self.folder))
        return super().open()

    def close(self) -> None:
        self.scratch.cleanup()


@dataclass(frozen=True)
class NamedSavepoint:
    name: str
    folder: Path
    service: str


def savepoints_of(given: dict[str, str], flag: str) -> list[NamedSavepoint]:
    """The savepoints in folders, by their names. Raises ConfigError."""
    return [_savepoint(name, Path(folder), flag) for name, folder in given.items()]


def _savepoint(name: str, folder: Path, flag: str) -> NamedSavepoint:
    try:
        return NamedSavepoint(name, folder, Savepoint(folder).manifest.job)
    except MoneystateError as e:
        raise ConfigError(
            f"{flag} {name}={folder}: expected a savepoint, but {e}",
            "give the folder of a savepoint.",
        ) from None
