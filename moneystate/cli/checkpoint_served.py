"""`moneystate checkpoint fingerprint, compare` for a query server: the keys part of the state, as of one version.

A server has no buffered events and no highs, because the changelog does not have them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import typer

from moneystate.cli import facts_view
from moneystate.cli.connection import NO_ANSWER, Connect
from moneystate.cli.state_owner import check_same, service_named, service_of
from moneystate.cli.work_progress import WorkProgress
from moneystate.engine.avro import Malformed
from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.errors import CheckpointError, ConfigError, QueryError
from moneystate.ports.service import ServiceSpec
from moneystate.ports.state import Fact, StateModel
from moneystate.savepoint.compare import Comparison, FactsOf, compare_facts, keys_facts
from moneystate.savepoint.facts import entry_facts
from moneystate.savepoint.fingerprint import Fingerprint, of_facts
from moneystate.savepoint.format import Pair
from moneystate.savepoint.spool import Spool
from moneystate.serving.addresses import is_address
from moneystate.serving.arguments import version_text
from moneystate.serving.client import Client
from moneystate.state.v1 import header_pb2, state_pb2, status_pb2
from state_tools.offline import open_state

PAGE = 1000
KEY_GROUPS = 256  # unless a savepoint has another number; of a million keys, a few thousand are in memory at a time


@dataclass(frozen=True)
class Moment:
    """The version that a state belongs to."""

    version: str  # EPOCH/BATCH if it is a server's; empty if it is a savepoint's
    watermark: int

    def __str__(self) -> str:
        version = f"version {self.version}, " if self.version else ""
        return f"{version}watermark {facts_view.time_text(self.watermark)}"

    def as_json(self) -> dict[str, Any]:
        return {"version": self.version or None, **facts_view.time_ms(self.watermark)}


@dataclass(frozen=True)
class ServedComparison:
    """Two states and their differences."""

    places: tuple[str, str]  # of the first and the second state
    moments: tuple[Moment, Moment]  # of the first and the second state
    state: StateModel
    result: Comparison


class Side(NamedTuple):
    """One of two states that are compared."""

    service: ServiceSpec
    moment: Moment
    facts: FactsOf


def is_server(place: str) -> bool:
    """Whether the place is a server's address. Raises ConfigError if it is nothing that has a state."""
    if "://" in place or Path(place).exists():
        return False
    if is_address(place):
        return True
    raise ConfigError(
        f"{place}: expected a savepoint, a stopped job's checkpoint, or HOST:PORT of a server, found no such path.",
        "check the path.",
    )


def check_no_moment(read_at: header_pb2.At | None) -> None:
    """Raises ConfigError."""
    if read_at is not None:
        raise ConfigError(
            "--at-version, --at-time: expected HOST:PORT of a query server, found files, which have one state.",
            "leave them out.",
        )


def fingerprint(
    connect: Connect, place: str, read_at: header_pb2.At | None, given: str, progress: WorkProgress
) -> tuple[Fingerprint, Moment]:
    """`given`: --service."""
    with connect(place) as client:
        served = Served(client, read_at, given, progress)
        total = Fingerprint()
        for page in served.pages():
            total += of_facts(served.facts(page))
        return total, served.moment


def tell_fingerprint(result: tuple[Fingerprint, Moment], json_output: bool) -> None:
    total, moment = result
    keys = str(total).partition("-")[0]
    if json_output:
        typer.echo(json.dumps({"keys": keys, **moment.as_json()}))
    else:
        typer.echo(keys)
        typer.echo(str(moment), err=True)


def compare(
    connect: Connect,
    places: tuple[str, str],
    read_at: header_pb2.At | None,
    given: str,
    most: int,
    progress: WorkProgress,
) -> ServedComparison:
    """Compares two places, at least one of which is a server. `given`: --service."""
    servers = [place for place in places if is_server(place)]
    for place in servers:
        with connect(place) as client:  # before reading a checkpoint, which takes a while
            client.call("Status.GetStatus", status_pb2.GetStatusRequest())
    with ExitStack() as stack:
        folder = next((place for place in places if place not in servers), None)
        owner = None if folder is None else service_of(folder, given)
        saved = None if folder is None or owner is None else stack.enter_context(open_state(owner.state, folder))
        groups = KEY_GROUPS if saved is None else saved.manifest.key_groups
        sides: list[Side] = []
        for place in places:
            if place in servers:
                scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moneystate-")))
                with connect(place) as client:
                    sides.append(_spooled(Served(client, read_at, given, progress), scratch, groups))
            else:
                assert saved is not None
                assert owner is not None
                facts = keys_facts(owner.state, saved)
                sides.append(Side(owner, Moment("", saved.manifest.watermark), facts))
        one, other = sides
        check_same(places, (one.service, other.service))
        compared = compare_facts(one.facts, other.facts, groups, most)
        return ServedComparison(places, (one.moment, other.moment), one.service.state, compared)


def tell_comparison(comparison: ServedComparison, json_output: bool) -> None:
    (one, other), places = comparison.moments, comparison.places
    notes = ["compared: the keys; a server has no buffered events"]
    if one.watermark != other.watermark:
        notes.append(f"these are different moments: {places[0]} is of {one}, {places[1]} of {other}")
    about = {"compared": "keys", "one": one.as_json(), "other": other.as_json()}
    facts_view.tell_comparison(comparison.state, comparison.result, places, json_output, "keys", about, notes)


class Served:
    """The entries of one version, page by page. Raises grpc.RpcError."""

    def __init__(self, client: Client, read_at: header_pb2.At | None, given: str, progress: WorkProgress) -> None:
        self.client = client
        self.progress = progress
        self.keys = client.call("Status.GetStatus", status_pb2.GetStatusRequest()).keys
        self.first = self._page(read_at, "")
        self.moment = _moment(self.first.header)
        name = client.call("State.GetSchema", state_pb2.GetSchemaRequest()).service
        self.rules = json.loads(self.first.rules)
        self.service = service_named(self.place, name, given, self.rules)

    @property
    def place(self) -> str:
        return str(self.client.target.address)

    def pages(self) -> Iterator[list[Pair]]:
        page, done = self.first, 0
        while True:
            yield [(entry.key, entry.value) for entry in page.entries]
            done += sum(self.service.state.counts_owner(entry.key) for entry in page.entries)
            self.progress.show(f"keys of {self.place}", done, max(done, self.keys))
            if not page.next_page_token:
                return
            page = self._page(None, page.next_page_token)

    def facts(self, entries: Iterable[Pair]) -> Iterator[Fact]:
        with _readable(self.place):
            for key, value in entries:
                yield from entry_facts(key, value, self.service.state, self.moment.watermark, self.rules)

    def _page(self, read_at: header_pb2.At | None, token: str) -> Any:
        request = state_pb2.ListStoredRequest(at=read_at, page_size=PAGE, page_token=token)
        return self.client.call("State.ListStored", request)


def _moment(header: header_pb2.Header) -> Moment:
    watermark = min(header.watermark_ms, END_OF_TIME) if header.HasField("watermark_ms") else NO_TIME
    return Moment(version_text(header.version), watermark)


def _spooled(served: Served, scratch: Path, groups: int) -> Side:
    spool = Spool(served.service.state, scratch, groups)
    with _readable(served.place):
        for page in served.pages():
            for key, value in page:
                spool.put(key, value)
    return Side(served.service, served.moment, lambda group: served.facts(spool.entries(group)))


@contextmanager
def _readable(place: str) -> Iterator[None]:
    """Raises QueryError for entries of a newer program."""
    try:
        yield
    except (Malformed, CheckpointError) as e:
        raise QueryError(
            f"{place}: expected entries that this program knows, but {e}.", "use the server's version.", NO_ANSWER
        ) from None
