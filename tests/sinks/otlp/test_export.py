"""Examples: spans reach a collector over the wire, a rate is kept, and none is waited for."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from cli.local.ports import free_ports
from sinks.otlp import export
from sinks.otlp.budget import Steps, Travelled
from sinks.otlp.export import LEFT_OUT, OVER, SENT, Exporter, OtlpRefused, endpoint
from sinks.otlp.spans import spans
from tests.sinks.otlp.collector import collecting
from tests.waiting import calm_s

ONE = Travelled(("default", "s", 0, 17), "beat", 90, 3, 85, 100, "", 120, 150, reorders=True)


def sending(url: str, *steps: Steps, left_out: int = 0) -> Counter[str]:
    """What is counted, once all is sent or given up."""
    counts: Counter[str] = Counter()

    async def run() -> None:
        exporter = Exporter(
            endpoint(url), "plant", {"inorder.stage": "merge"}, lambda o, n: counts.update({o: n})
        )
        for each in steps:
            exporter.committed(each, left_out)
        await exporter.stop()

    asyncio.run(run())
    return counts


def test_spans_arrive_as_they_were_made() -> None:
    before_ns = time.time_ns()
    with collecting() as collector:
        assert sending(collector.url, Steps([ONE])) == {SENT: 1}
    assert collector.paths == {"/v1/traces"}
    (wanted,) = spans("plant", Steps([ONE]), 0)
    assert {(span.name, int(span.trace, 16), int(span.span, 16)) for span in collector.spans} == {
        (span.name, span.trace_id, span.span_id) for span in wanted
    }
    (root,) = (span for span in collector.spans if not span.parent)
    assert all(span.parent == root.span for span in collector.spans if span is not root)
    assert root.start_ns == 90
    assert root.end_ns >= before_ns
    assert root.took_ns == sum(span.took_ns for span in collector.spans if span is not root)
    assert root.attributes["inorder.seq"] == 17
    assert (root.resource["service.name"], root.resource["inorder.stage"]) == ("inorder", "merge")


def test_the_rate_is_bounded_and_what_is_left_out_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "MAX_TRACES_PER_S", 5)
    monkeypatch.setattr(
        export, "time", SimpleNamespace(monotonic=lambda: 0.0, time_ns=time.time_ns)
    )
    many = [dataclasses.replace(ONE, who=("default", "s", 0, seq)) for seq in range(40)]
    with collecting() as collector:
        counts = sending(collector.url, Steps(many), left_out=3)
    assert counts[SENT] + counts[OVER] == 40
    assert counts[SENT] == 5
    assert counts[LEFT_OUT] == 3
    assert len(collector.traces()) == counts[SENT]


def test_a_collector_that_is_gone_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "TIMEOUT_S", 0.5)
    (port,) = free_ports(1)
    began_s = time.monotonic()
    assert sending(f"http://127.0.0.1:{port}", Steps([ONE])) == {SENT: 1}
    assert calm_s(began_s) < 5.0


def test_a_collector_that_never_answers_keeps_the_stop_for_one_timeout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(export, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(export, "MAX_TRACES_PER_S", export.MAX_QUEUED)
    many = [dataclasses.replace(ONE, who=("default", "s", 0, seq)) for seq in range(2_000)]
    assert sum(map(len, spans("plant", Steps(many), 0))) > export.MAX_QUEUED  # several batches wait
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel accepts, nobody answers
        began_s = time.monotonic()
        sending(f"http://127.0.0.1:{deaf.getsockname()[1]}", Steps(many))
        took_s, calmly_s = time.monotonic() - began_s, calm_s(began_s)
    assert took_s >= 1.0
    assert calmly_s < 4.0
    assert "has not taken all within 1 s" in caplog.text


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("https://c/otlp/v1/traces", "https://c/otlp/v1/traces"),
    ],
)
def test_where_spans_are_posted_to(url: str, found: str) -> None:
    assert endpoint(url) == found


@pytest.mark.parametrize(
    ("url", "words"),
    [("c:4318", "is no collector"), ("http://me:secret@c:4318", "OTEL_EXPORTER_OTLP_HEADERS")],
)
def test_what_is_no_collector(url: str, words: str) -> None:
    with pytest.raises(OtlpRefused, match=words) as refused:
        endpoint(url)
    assert "secret" not in str(refused.value)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "find_spec", lambda _: None)
    with pytest.raises(OtlpRefused, match=r"inorder-engine\[otlp\]"):
        endpoint("http://c:4318")
