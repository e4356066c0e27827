"""Exposes the sync server's counts to Prometheus; names begin with `inorder_sync_`.

    packets_total{outcome}   answered (a REQ), taken (a REPORT), or the reason why not
                             (`inorder.sync.reason`): every packet once, except `unsent`,
                             which counts replies that the system did not send
    samples_total{outcome}   delivered to the topic; lost on the way; refused without space
    samples_waiting          taken and not yet delivered
    addresses                known to the limiter
    clock_steps_total        of the server's own clock
    kernel_stamps            1 if receive timestamps are the kernel's

Labels have a fixed set of values, never a source or an address.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inorder.sync.reason import Reason
from producers.sync_server.answering import ANSWERED, REPORTED
from producers.sync_server.publishing import Publishing
from producers.sync_server.server import SyncServer

_CLIENTS_OWN = (
    Reason.TIMEOUT,
    Reason.UNACKNOWLEDGED,
    Reason.UNEXPECTED,
    Reason.JUMP,
    Reason.SOURCE_CLOCK,
    Reason.UNREACHABLE,
    Reason.FAILED,
)
OUTCOMES = (ANSWERED, REPORTED, *(each for each in Reason if each not in _CLIENTS_OWN))


class ServerCollector(Collector):
    """A Prometheus collector of the server's counts, which any thread may read."""

    def __init__(self, server: SyncServer, publishing: Publishing) -> None:
        self._server = server
        self._publishing = publishing

    def collect(self) -> Iterable[Metric]:
        server, publishing = self._server, self._publishing
        packets = CounterMetricFamily(
            "inorder_sync_packets", "Packets, by outcome", labels=["outcome"]
        )
        for outcome in OUTCOMES:
            packets.add_metric([outcome], server.counts[outcome])
        yield packets
        samples = CounterMetricFamily(
            "inorder_sync_samples", "Reported rounds, by outcome", labels=["outcome"]
        )
        for outcome in ("delivered", "lost", "refused"):
            samples.add_metric([outcome], getattr(publishing, outcome))
        yield samples
        waiting = publishing.taken - publishing.delivered - publishing.lost
        for name, text, value in (
            ("inorder_sync_samples_waiting", "Samples on their way to the topic", max(0, waiting)),
            ("inorder_sync_addresses", "Addresses that the limiter knows", server.addresses),
            (
                "inorder_sync_kernel_stamps",
                "Whether receive timestamps are the kernel's",
                server.kernel_stamps,
            ),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        yield CounterMetricFamily(
            "inorder_sync_clock_steps", "Steps of the server's clock", value=server.steps
        )
