"""Spans to a collector, by OTLP over HTTP: the one place that knows OpenTelemetry's library.

It is an extra (`inorder-engine[otlp]`) and is loaded only where a URL is given. Spans are handed to
the library's batch processor, which sends them from a thread of its own: the loop of the stage
waits for no collector, and one that has ended costs spans and nothing else.

Bounds: `MAX_TRACES_PER_S` traces, `MAX_QUEUED` spans that wait for the collector, `TIMEOUT_S` for
an answer of it, and as long for the whole of the stop: what a collector has not taken by then is
given up, and the thread that sends is left behind. What goes beyond the rate is dropped and counted
by `outcome`.

The collector's own settings (headers with a password, certificates) are the library's variables,
`OTEL_EXPORTER_OTLP_…`, and so never on a command line.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sinks.otlp.budget import Steps
from sinks.otlp.spans import EVENT, Span, spans

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

log = logging.getLogger(__name__)

MAX_TRACES_PER_S: Final = 100
MAX_QUEUED: Final = 4_096
MAX_BATCH: Final = 512
EVERY_MS: Final = 1_000
TIMEOUT_S: Final = 5.0
PATH: Final = "/v1/traces"

SENT: Final = "handed_over"
OVER: Final = "over_rate"
LEFT_OUT: Final = "left_out"


class OtlpRefused(ValueError):
    """Traces cannot be sent so; the message states what to do."""


def endpoint(url: str) -> str:
    """Where spans are posted to. OtlpRefused: it is no address, or the library is not there."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OtlpRefused(f"{url!r} is no collector; write http://HOST:4318")
    if parts.username is not None:
        raise OtlpRefused(
            f"{parts.hostname}: no password in the URL; put it into OTEL_EXPORTER_OTLP_HEADERS"
        )
    if find_spec("opentelemetry") is None:
        raise OtlpRefused(
            "OpenTelemetry's library is not installed; pip install 'inorder-engine[otlp]', or"
            " -r requirements-otlp.lock"
        )
    return url if parts.path.strip("/") else url.rstrip("/") + PATH


class Exporter:
    """One stage's process. `counted(outcome, traces)` is called with their outcome."""

    def __init__(
        self,
        url: str,
        application: str,
        resource: Mapping[str, str],
        counted: Callable[[str, int], None],
    ) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._application = application
        self._counted = counted
        self._resource = Resource({"service.name": "inorder", **resource})
        self._scope = InstrumentationScope("inorder")
        self._sender = BatchSpanProcessor(
            OTLPSpanExporter(endpoint=url, timeout=TIMEOUT_S),
            max_queue_size=MAX_QUEUED,
            schedule_delay_millis=EVERY_MS,
            max_export_batch_size=MAX_BATCH,
        )
        self._left = float(MAX_TRACES_PER_S)
        self._refilled_s = time.monotonic()

    def committed(self, steps: Steps, left_out: int = 0) -> None:
        """A checkpoint has come through, just now."""
        if left_out:
            self._counted(LEFT_OUT, left_out)
        sent = over = 0
        for made in spans(self._application, steps, time.time_ns()):
            if not self._may_send():
                over += 1
                continue
            sent += 1
            for span in made:
                self._sender.on_end(self._readable(span))
        for outcome, count in ((SENT, sent), (OVER, over)):
            if count:
                self._counted(outcome, count)

    async def stop(self) -> None:
        """What waits is sent, for TIMEOUT_S at most in all."""
        # The library waits TIMEOUT_S for each batch, and a loop that ends waits for the threads of
        # its pool: so it is a thread of our own, which nobody waits for.
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            self._sender.shutdown()  # type: ignore[no-untyped-call]
            with suppress(RuntimeError):  # the loop is closed: we were left behind
                loop.call_soon_threadsafe(stopped.set)

        threading.Thread(target=stop, name="traces-stop", daemon=True).start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await stopped.wait()
        except TimeoutError:
            log.warning("the collector has not taken all within %.0f s of the stop", TIMEOUT_S)

    def _may_send(self) -> bool:
        now_s = time.monotonic()
        refill = (now_s - self._refilled_s) * MAX_TRACES_PER_S
        self._left = min(float(MAX_TRACES_PER_S), self._left + refill)
        self._refilled_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def _readable(self, span: Span) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

        sampled = TraceFlags(TraceFlags.SAMPLED)
        parent = None
        if span.name != EVENT:
            parent = SpanContext(span.trace_id, span.parent_id, is_remote=True, trace_flags=sampled)
        return ReadableSpan(
            name=span.name,
            context=SpanContext(span.trace_id, span.span_id, is_remote=False, trace_flags=sampled),
            parent=parent,
            resource=self._resource,
            attributes=dict(span.attributes),
            kind=SpanKind.INTERNAL,
            instrumentation_scope=self._scope,
            start_time=span.start_ns,
            end_time=span.end_ns,
        )
