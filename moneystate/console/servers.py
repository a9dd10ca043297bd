"""The query servers of services (`state.v1`), as far as they answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message

from moneystate.errors import ConfigError
from moneystate.log import get_log
from moneystate.serving.addresses import is_loopback
from moneystate.serving.client import Client, Target
from moneystate.state.v1 import state_pb2 as s
from moneystate.state.v1 import status_pb2

_log = get_log(__name__)
QUICK_S = 2.0  # for what pages show of all servers at once


class Asked(Exception):
    """A call that failed. `code`: of gRPC, such as NOT_FOUND."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Server:
    """A server and what its service declares."""

    address: str
    schema: s.GetSchemaResponse

    @property
    def service(self) -> str:
        return self.schema.service

    def query(self, name: str) -> s.QuerySchema | None:
        return next((one for one in self.schema.queries if one.name == name), None)


class Servers:
    """Calls block: run them in a thread. Declarations are asked for once, as a server has the same until it ends."""

    def __init__(self, targets: Sequence[Target], timeout_s: float) -> None:
        """Raises ConfigError."""
        self.timeout_s = timeout_s
        self.targets = targets  # given at the start
        self.given = {target.address: Client(target, timeout_s) for target in targets}
        self.clients = dict(self.given)  # and those of servers that announce themselves
        self.known: dict[str, Server] = {}
        self.lock = threading.Lock()

    def check_tokens(self) -> None:
        """Raises ConfigError if tokens of browsers would leave this machine without encryption."""
        for target in self.targets:
            if not target.ca and not is_loopback(target.address):
                raise ConfigError(
                    f"--state {target.address}: expected an encrypted connection, as it is sent the tokens of callers.",
                    "give --state-ca FILE as well.",
                )

    def announced(self, targets: Sequence[Target]) -> None:
        """Asks these, too, from now on. Calls in other threads keep the client that they have."""
        known = self.clients
        more = {its.address: its for its in targets if its.address not in self.given}
        same = {address: known[address] for address, its in more.items() if _is_of(known.get(address), its)}
        try:
            new = {address: Client(its, self.timeout_s) for address, its in more.items() if address not in same}
        except ConfigError as e:
            _log.warning(str(e))
            new = {}
        self.clients = {**self.given, **same, **new}
        with self.lock:
            self.known = {address: its for address, its in self.known.items() if address in self.clients}

    def close(self) -> None:
        for client in self.clients.values():
            client.channel.close()

    def all(self, token: str) -> list[Server]:
        """The servers that answer: those given, in the order of their flags, then those that announce themselves."""
        answering = []
        for address in self.clients:
            try:
                answering.append(self._server(address, token))
            except Asked:
                self.known.pop(address, None)
        return answering

    def of_service(self, service: str, token: str) -> Server | None:
        known = list(self.known.values())  # asked first: servers that do not answer take their time
        return _of(service, known) or _of(service, self.all(token))

    def status(self, server: Server, token: str) -> status_pb2.GetStatusResponse:
        """Raises Asked."""
        answer: status_pb2.GetStatusResponse = self.call(
            server.address, "Status.GetStatus", status_pb2.GetStatusRequest(), token, QUICK_S
        )
        return answer

    def call(self, address: str, name: str, request: Message, token: str, timeout_s: float | None = None) -> Any:
        """Raises Asked."""
        client = self.clients.get(address)
        if client is None:
            raise Asked("UNAVAILABLE", f"the query server {address} has ended.")
        try:
            return client.call(name, request, _metadata(token), timeout_s)
        except grpc.RpcError as e:
            call: Any = e  # grpc's errors of calls are also calls
            if call.code() is grpc.StatusCode.UNAVAILABLE:
                self.known.pop(address, None)  # another one may answer there next
            raise Asked(call.code().name, " ".join((call.details() or "").split())) from None

    def _server(self, address: str, token: str) -> Server:
        with self.lock:
            known = self.known.get(address)
        if known is None:
            schema = self.call(address, "State.GetSchema", s.GetSchemaRequest(), token, QUICK_S)
            known = Server(address, schema)
            with self.lock:
                self.known[address] = known
        return known


def _is_of(client: Client | None, target: Target) -> bool:
    return client is not None and client.target == target


def _of(service: str, servers: Sequence[Server]) -> Server | None:
    return next((server for server in servers if server.service == service), None)


def _metadata(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),) if token else ()
