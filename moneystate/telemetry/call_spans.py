"""Spans of gRPC calls, named and described as OpenTelemetry's conventions for RPC ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from moneystate.telemetry.spans import Answered
from moneystate.telemetry.traces import Traces, context_of, context_of_process, metadata_of

# Codes of gRPC that are the server's fault. Of a client, all but OK are errors.
SERVER_ERRORS: Final = frozenset({2, 4, 12, 13, 14, 15})
OK: Final = 0


class CallSpan:
    def __init__(self, span: trace.Span, kind: SpanKind) -> None:
        self.span = span
        self.kind = kind

    @property
    def metadata(self) -> list[tuple[str, str]]:
        """Returns what continues the trace in the server."""
        return metadata_of(self.span)

    def end(self, code: int, answered: Answered | None = None) -> None:
        """`code`: of gRPC."""
        self.span.set_attribute("rpc.grpc.status_code", code)
        if answered is not None:
            self.span.set_attribute("moneystate.rows", answered.rows)
            if answered.version:
                self.span.set_attribute("moneystate.version", answered.version)
        if code in SERVER_ERRORS or (self.kind is SpanKind.CLIENT and code != OK):
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()


class CallSpans:
    def __init__(self, traces: Traces) -> None:
        self.traces = traces

    def serve(self, path: str, metadata: Iterable[tuple[str, Any]]) -> CallSpan:
        """Begins the span of a call that arrives. It continues the caller's trace."""
        return self._begin(path, SpanKind.SERVER, context_of(metadata))

    def call(self, path: str) -> CallSpan:
        """Begins the span of a call to a server. It continues the trace of TRACEPARENT, if there is one."""
        return self._begin(path, SpanKind.CLIENT, context_of_process())

    def _begin(self, path: str, kind: SpanKind, parent: Any) -> CallSpan:
        """`path`: /package.Service/Method."""
        name = path.removeprefix("/")
        service, _, method = name.partition("/")
        about = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        return CallSpan(self.traces.begin(name, kind, parent, about), kind)
