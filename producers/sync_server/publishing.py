"""Sends samples to `clock.offsets` in Kafka, or writes them as JSON lines to a binary file.

A record's key is the source, so a source's samples are in one partition and in order. Its value is
JSON: `{"t1":…,"t2":…,"t3":…,"t4":…,"server":…,"segment":…,"mono":…}`. `mono` is absent if the
source does not send it. `LinePublishing` writes the clock lines that `inorder replay` reads.

An unreachable broker never stops the exchange with sources. At most `QUEUE_RECORDS` samples wait,
each for at most `DELIVERY_TIMEOUT_S`. A sample that finds no space, or is not delivered in time, is
counted and dropped. Later samples of the source make up for it.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from typing import IO, Final

import orjson

from inorder.channel import Channel, ChannelLimits, Settings
from inorder.failure import BrokerFatal, DeliveryFailed, FlushTimeout, QueueFull, RecordRefused
from inorder.lasting_client import Coordinates
from inorder.sync.packet import Packet
from producers.sync_server.answering import sample_line

QUEUE_RECORDS: Final = 100_000
QUEUE_BYTES: Final = 64 << 20
DELIVERY_TIMEOUT_S: Final = 60.0
LINGER_MS: Final = 20
FLUSH_TIMEOUT_S: Final = 5.0
LOG_EVERY_S: Final = 10.0
STUCK_S: Final = 10.0

log = logging.getLogger("inorder.sync")


class Publishing(ABC):
    """A target for samples: taken = delivered + lost + waiting.

    `refused` counts the samples that were not taken, for example because there was no space. All
    calls come from one thread, except `trouble` and reads of the counts.
    """

    taken = delivered = lost = refused = 0

    @abstractmethod
    def take(self, sample: Packet) -> bool:
        """Accept a sample if there is space, and return whether there was; never wait."""

    @abstractmethod
    def update_counts(self) -> None:
        """Update the counts of delivered and lost samples, after each turn of the server."""

    def trouble(self) -> str:
        """Return why samples do not arrive, or "" if they do."""
        return ""

    def close(self) -> None:
        """Wait for a bounded time until waiting samples are delivered, and close the target."""
        self.update_counts()


class TopicPublishing(Publishing):
    """A target that sends samples to a Kafka topic, with `server` as the name of their server."""

    def __init__(
        self, brokers: str, topic: str, server: str, settings: Settings | None = None
    ) -> None:
        self._brokers = brokers
        self._topic = topic
        self._server = server
        self._settings: Settings = {"linger.ms": LINGER_MS, **(settings or {})}
        self._channel = self._new_channel()
        self._delivered_before = 0
        self._moved_s = time.monotonic()
        self._logged_s = float("-inf")

    def take(self, sample: Packet) -> bool:
        value = orjson.dumps(sample_line(sample, self._server))
        coordinates = Coordinates(sample.source, sample.epoch, sample.round)
        try:
            self._channel.send(coordinates, sample.source.encode(), value, [])
        except (QueueFull, RecordRefused, BrokerFatal) as error:
            self.refused += 1
            self._log(str(error))
            if isinstance(error, BrokerFatal):
                self._renew()
            return False
        if self.taken == self.delivered + self.lost:
            self._moved_s = time.monotonic()  # No other sample waited before this one.
        self.taken += 1
        return True

    def update_counts(self) -> None:
        self._channel.poll()
        delivered = self._delivered_before + self._channel.delivered
        if delivered != self.delivered:
            self.delivered = delivered
            self._moved_s = time.monotonic()
        try:
            self._channel.raise_failures()
        except DeliveryFailed as failed:
            self.lost += failed.count
            self._log(f"{failed.count} samples lost; the first: {failed.failures[0].reason}")

    def trouble(self) -> str:
        waiting = self.taken - self.delivered - self.lost
        if waiting > 0 and time.monotonic() - self._moved_s > STUCK_S:
            return f"{waiting} samples wait for {self._topic}; check the brokers"
        return ""

    def close(self) -> None:
        try:
            self._channel.flush(FLUSH_TIMEOUT_S)
        except FlushTimeout as error:
            log.warning("%s; these samples are lost", error)
            self._channel.purge()
        super().close()

    def _renew(self) -> None:
        """Replace the Kafka client after a fatal error."""
        self._channel.purge()
        self.update_counts()
        self._delivered_before = self.delivered
        self._channel = self._new_channel()

    def _new_channel(self) -> Channel:
        limits = ChannelLimits(QUEUE_RECORDS, QUEUE_BYTES, 0.0, DELIVERY_TIMEOUT_S)
        return Channel(self._brokers, self._topic, limits=limits, settings=self._settings)

    def _log(self, what: str) -> None:
        now_s = time.monotonic()
        if now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            log.warning("%s (%d samples lost in total)", what, self.lost + self.refused)


class LinePublishing(Publishing):
    """A target that writes JSON lines to a binary file, for trials and for `inorder replay`."""

    def __init__(self, stream: IO[bytes], server: str) -> None:
        self._stream = stream
        self._server = server

    def take(self, sample: Packet) -> bool:
        line = {"clock": sample.source, **sample_line(sample, self._server)}
        self._stream.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self.taken += 1
        return True

    def update_counts(self) -> None:
        if self.delivered != self.taken:
            self._stream.flush()
            self.delivered = self.taken
