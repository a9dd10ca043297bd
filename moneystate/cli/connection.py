"""The flags of a connection to a query server, and the errors of its calls as one line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, Any

import grpc

from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClientFlags
from moneystate.cli.option import ADDRESS, DURATION, Panel, flagged, option
from moneystate.cli.options import Traces
from moneystate.cli.tracing import calls_traced
from moneystate.errors import MoneystateError, QueryError
from moneystate.serving.client import Client, Target

DEFAULT_ADDRESS = "127.0.0.1:8484"
EXIT_CODES = {
    grpc.StatusCode.NOT_FOUND: 1,
    grpc.StatusCode.OUT_OF_RANGE: 1,
    grpc.StatusCode.INVALID_ARGUMENT: 2,
    grpc.StatusCode.UNAUTHENTICATED: 2,
    grpc.StatusCode.PERMISSION_DENIED: 2,
    grpc.StatusCode.UNAVAILABLE: 3,
    grpc.StatusCode.DEADLINE_EXCEEDED: 3,
}
ADVICE = {
    grpc.StatusCode.NOT_FOUND: "check the id, or ask as of another version.",
    grpc.StatusCode.OUT_OF_RANGE: "ask as of a version that the server has; moneystate ask SERVICE status shows them.",
    grpc.StatusCode.INVALID_ARGUMENT: "check the arguments; see --help.",
    grpc.StatusCode.UNAUTHENTICATED: "give --token-file, or --tls-cert and --tls-key.",
    grpc.StatusCode.PERMISSION_DENIED: "use a token or a certificate with the scope.",
    grpc.StatusCode.DEADLINE_EXCEEDED: "raise --timeout, or ask for less.",
}
NO_ANSWER = 3  # for commands whose code 1 means something else

Address = Annotated[str, option("address", "The query server.", Panel.server, ADDRESS)]
Timeout = Annotated[str, option("timeout", "How long an answer may take.", Panel.server, DURATION)]

Connected = AbstractContextManager[Client]
Connect = Callable[[str], Connected]  # to an address


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces the parameter `client` with the flags of a connection. Errors of calls become one line."""

    @functools.wraps(command)
    def run(client: Connected, **given: Any) -> None:
        with client as opened:
            command(client=opened, **given)

    return flagged(run, "client", _connected)


def connecting(command: Callable[..., None]) -> Callable[..., None]:
    """Works like `connected`, for commands whose arguments name the servers. The parameter is `connect`. Exit code 1 is
    reserved for the command."""
    return flagged(command, "connect", _connecting)


def _connected(
    client_flags: ClientFlags, address: Address = DEFAULT_ADDRESS, timeout: Timeout = "10s", traces: Traces = False
) -> Connected:
    return _opened(_target(address, client_flags), timeout, "--address", traces)


def _connecting(client_flags: ClientFlags, timeout: Timeout = "10s") -> Connect:
    @contextmanager
    def connect(address: str) -> Iterator[Client]:
        try:
            with _opened(_target(address, client_flags), timeout, "HOST:PORT") as client:
                yield client
        except QueryError as e:
            if e.exit_code == 1:
                e.exit_code = NO_ANSWER
            raise

    return connect


def _target(address: str, flags: ClientFlags) -> Target:
    return Target(address, flags.tls_ca, flags.tls_cert, flags.tls_key, flags.token_file)


@contextmanager
def _opened(target: Target, timeout: str, named_by: str, traces: bool = False) -> Iterator[Client]:
    timeout_s = parse_ms(timeout, "--timeout", 1) / 1000
    with calls_traced(traces) as spans, Client(target, timeout_s, spans) as client:
        try:
            yield client
        except grpc.RpcError as e:
            raise _told(e, target.address, named_by) from None


def _told(error: grpc.RpcError, address: str, named_by: str) -> MoneystateError:
    call: Any = error  # grpc's errors of calls are also calls
    code, message = call.code(), " ".join((call.details() or "").split())
    if code is grpc.StatusCode.UNAVAILABLE:
        do = f"check {named_by} and --tls-ca, and that the server runs."
        return QueryError(f"{address}: expected an answer, but {message}", do, EXIT_CODES[code])
    do = ADVICE.get(code, "see the server's log.")
    return QueryError(f"{address}: {code.name}: {message}", do, EXIT_CODES.get(code, MoneystateError.exit_code))
