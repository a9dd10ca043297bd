"""A connection to a query server, for the command line and for tests: Python programs may use it as well."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from moneystate.errors import ConfigError
from moneystate.serving.addresses import is_loopback
from moneystate.state.v1 import state_pb2, status_pb2
from moneystate.telemetry.spans import RequestedCalls

SERVICES = {
    name: service for file in (state_pb2, status_pb2) for name, service in file.DESCRIPTOR.services_by_name.items()
}


@dataclass(frozen=True)
class Target:
    """The server to call. Empty: not used."""

    address: str  # HOST:PORT
    ca: str = ""  # PEM file
    cert: str = ""  # PEM file
    key: str = ""  # PEM file
    token_file: str = ""

    def channel(self) -> grpc.Channel:
        """Raises ConfigError."""
        if self.ca or self.cert:
            return grpc.secure_channel(self.address, self._credentials())
        if self.token_file and not is_loopback(self.address):
            raise ConfigError(
                f"--token-file: expected an encrypted connection to {self.address}, as a token is a secret.",
                "give --tls-ca FILE as well.",
            )
        return grpc.insecure_channel(self.address)

    def metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        token = _read(self.token_file, "--token-file").decode("latin-1").strip() if self.token_file else ""
        return (("authorization", f"Bearer {token}"),) if token else ()

    def _credentials(self) -> grpc.ChannelCredentials:
        if bool(self.cert) != bool(self.key):
            raise ConfigError("--tls-cert, --tls-key: expected both or neither, found one.", "give the other, too.")
        return grpc.ssl_channel_credentials(
            _read(self.ca, "--tls-ca") if self.ca else None,
            _read(self.key, "--tls-key") if self.key else None,
            _read(self.cert, "--tls-cert") if self.cert else None,
        )


class Client:
    """Calls by name: `client.call("State.Get", request)`. Raises grpc.RpcError."""

    def __init__(self, target: Target, timeout_s: float, spans: RequestedCalls | None = None) -> None:
        """`spans`: None: no call is traced. Streams never are."""
        self.spans = spans
        self.target = target
        self.timeout_s = timeout_s
        self.metadata = target.metadata()
        self.channel = target.channel()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.channel.close()

    def call(
        self, name: str, request: Message, metadata: Iterable[tuple[str, str]] = (), timeout_s: float | None = None
    ) -> Any:
        """`metadata`: of this call, besides the client's; `timeout_s`: of this call, instead of the client's."""
        path, answer = _method(name)
        call = self.channel.unary_unary(path, type(request).SerializeToString, answer.FromString)
        with self._traced(path) as more:
            return call(request, timeout=timeout_s or self.timeout_s, metadata=(*self.metadata, *metadata, *more))

    @contextmanager
    def _traced(self, path: str) -> Iterator[Iterable[tuple[str, str]]]:
        """Yields what the call's metadata has in addition."""
        if self.spans is None:
            yield ()
            return
        span = self.spans.call(path)
        try:
            yield span.metadata
        except grpc.RpcError as e:
            span.end(e.code().value[0])
            raise
        span.end(grpc.StatusCode.OK.value[0])

    def stream(self, name: str, request: Message) -> Any:
        """Yields answers until the server or the caller ends the call."""
        path, answer = _method(name)
        call = self.channel.unary_stream(path, type(request).SerializeToString, answer.FromString)
        return call(request, metadata=self.metadata)


def _method(name: str) -> tuple[str, type[Message]]:
    service, _, method = name.partition(".")
    descriptor = SERVICES[service].methods_by_name[method]
    path = f"/{SERVICES[service].full_name}/{method}"
    return path, GetMessageClass(descriptor.output_type)


def _read(path: str, flag: str) -> bytes:
    try:
        return Path(path).read_bytes().removeprefix(BOM_UTF8)
    except OSError as e:
        raise ConfigError(f"{flag} {path}: expected a file, but {e.strerror}.", "check the path.") from None
