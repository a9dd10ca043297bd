"""Real receivers on loopback: of OpenLineage's events over HTTP, and of OpenTelemetry's spans over OTLP/HTTP."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from openlineage.client import event_v2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver:
    """Keeps the bodies of all requests, by path."""

    def __init__(self) -> None:
        bodies: list[tuple[str, bytes]] = []
        self.bodies = bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                bodies.append((self.path, body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def environment(self) -> dict[str, str]:
        """Sends both here. Spans do not wait for more of them."""
        return {
            "OPENLINEAGE_URL": self.url,
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def events(self) -> list[dict[str, Any]]:
        """Returns the events of OpenLineage, checked."""
        return [checked(json.loads(body)) for path, body in list(self.bodies) if path == "/api/v1/lineage"]

    def spans(self) -> list[Received]:
        requests = [ExportTraceServiceRequest.FromString(b) for path, b in list(self.bodies) if path == "/v1/traces"]
        return [
            Received(_values(resource.resource.attributes)["service.name"], span)
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Received(NamedTuple):
    service: str
    span: Span

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def attributes(self) -> dict[str, Any]:
        return _values(self.span.attributes)


def checked(event: dict[str, Any]) -> dict[str, Any]:
    """An event that the client's own classes can be made of: no field is missing, or unknown."""
    fields = {name: value for name, value in event.items() if name != "schemaURL"}
    made = event_v2.RunEvent(
        **{
            **fields,
            "eventType": event_v2.RunState(event["eventType"]),
            "run": event_v2.Run(**event["run"]),
            "job": event_v2.Job(**event["job"]),
            "inputs": [event_v2.InputDataset(**dataset) for dataset in event["inputs"]],
            "outputs": [event_v2.OutputDataset(**dataset) for dataset in event["outputs"]],
        }
    )
    assert made.schemaURL == event["schemaURL"]
    return event


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in _pairs(attributes)}


def _pairs(attributes: Any) -> list[KeyValue]:
    return list(attributes)


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)
