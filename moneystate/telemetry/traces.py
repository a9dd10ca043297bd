"""Traces by OpenTelemetry's SDK, sent over OTLP/HTTP. The variables OTEL_... are those of the SDK and its exporter."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from moneystate.errors import ConfigError
from moneystate.telemetry.delivery import CLOSE_S, SLOW, Delivery
from moneystate.telemetry.spans import Attributes, Span

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.trace import SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    raise ConfigError(
        "--traces: expected the packages of OpenTelemetry, which are not installed.", "pip install 'moneystate[otel]'."
    ) from None

PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL: Final = "http/protobuf"
VERSION: Final = importlib.metadata.version("moneystate")
NO_PARENT: Final = Context()
W3C: Final = TraceContextTextMapPropagator()


class Traces:
    """The way of the spans of one service in this process."""

    def __init__(self, service: str, count: Callable[[int, str], None]) -> None:
        """Raises ConfigError. `service`: as OTEL_SERVICE_NAME, which overrides it."""
        check_protocol()
        # every retry would be a line of the log
        for library in ("opentelemetry", "urllib3.connectionpool"):
            logging.getLogger(library).setLevel(logging.CRITICAL)
        own = {"service.name": service, "service.namespace": "moneystate", "service.version": VERSION}
        resource = Resource.create({**own, **OTELResourceDetector().detect().attributes})
        do = "see where OTEL_EXPORTER_OTLP_ENDPOINT sends them."
        self.delivery = delivery = Delivery("OpenTelemetry's spans", do, count)
        self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(_Counting(OTLPSpanExporter(), delivery)))
        self.tracer = self.provider.get_tracer("moneystate", VERSION)

    def record(self, span: Span) -> None:
        """A trace of its own."""
        self._record(span, NO_PARENT)

    def begin(self, name: str, kind: SpanKind, parent: Context, attributes: Attributes) -> trace.Span:
        """A span that the caller ends."""
        return self.tracer.start_span(name, parent, kind, attributes)

    def close(self) -> None:
        """Sends what has not been sent, but does not wait for longer than `CLOSE_S`."""
        closing = threading.Thread(target=self.provider.shutdown, name="traces end", daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        if closing.is_alive():
            self.delivery.lost(0, SLOW)  # nobody knows how many

    def _record(self, span: Span, parent: Context) -> None:
        own = self.tracer.start_span(span.name, parent, SpanKind.INTERNAL, span.attributes, start_time=span.begun_ns)
        inside = trace.set_span_in_context(own, parent)
        for child in span.children:
            self._record(child, inside)
        if span.error:
            own.set_status(Status(StatusCode.ERROR, span.error))
        own.end(span.ended_ns)


def context_of(metadata: Iterable[tuple[str, Any]]) -> Context:
    """The caller's trace, by `traceparent` and `tracestate` in the metadata of a call."""
    return W3C.extract({key: value for key, value in metadata if isinstance(value, str)}, NO_PARENT)


def context_of_process() -> Context:
    """The trace that this process was started in, by the variables TRACEPARENT and TRACESTATE."""
    return W3C.extract({name.lower(): os.environ.get(name, "") for name in ("TRACEPARENT", "TRACESTATE")}, NO_PARENT)


def metadata_of(span: trace.Span) -> list[tuple[str, str]]:
    """Returns what tells the server of a call its trace."""
    carrier: dict[str, str] = {}
    W3C.inject(carrier, trace.set_span_in_context(span, NO_PARENT))
    return list(carrier.items())


class _Counting(SpanExporter):
    def __init__(self, exporter: SpanExporter, delivery: Delivery) -> None:
        self.exporter = exporter
        self.delivery = delivery

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self.exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.delivery.sent(len(spans))
        else:
            self.delivery.lost(len(spans), "the exporter failed")
        return result

    def shutdown(self) -> None:
        self.exporter.shutdown()


def check_protocol() -> None:
    """Raises ConfigError."""
    for name in PROTOCOLS:
        given = os.environ.get(name, "")
        if given and given != PROTOCOL:
            raise ConfigError(
                f"{name}: expected {PROTOCOL}, found {given}.", "unset it, and give the endpoint of OTLP/HTTP."
            )
