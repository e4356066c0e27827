"""Writes dead letters about records that are not results, and about refused results.

A letter is one JSON object: `kind` (dead), `topic`, `partition` and `offset` of the record,
`reason` and `detail` (the fault). It has `id` and `revision` if they could be read. It never has
the record itself, which stays in its topic. Letters are written before the offsets of their batch
are committed, so none is lost. After a crash some are written again, with the same topic, partition
and offset.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, Final, Protocol

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sinks.result import MAX_ID_CHARS
from sinks.sink import SinkUnavailable, SinkUnusable

DELIVERY_TIMEOUT_S: Final = 10.0
PURGE_S: Final = 5.0
MAX_DETAIL_CHARS: Final = 500

log = logging.getLogger("inorder.sink")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter about one record, without its content."""

    topic: str
    partition: int
    offset: int
    reason: str
    detail: str
    id: str | None = None
    revision: int | None = None

    def line(self) -> bytes:
        letter = {"kind": "dead", **asdict(self)}
        letter["detail"] = self.detail[:MAX_DETAIL_CHARS]
        letter["id"] = None if self.id is None else self.id[:MAX_ID_CHARS]
        return orjson.dumps(letter)


class DeadLetters(Protocol):
    """A target for dead letters."""

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Write the letters, and return when they are durable.

        Raises SinkUnavailable or SinkUnusable.
        """

    def close(self) -> None:
        """Close the connections of the target."""


class DeadLines:
    """A target that writes lines to an open file such as standard output; the caller closes it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, letters: Sequence[DeadLetter]) -> None:
        try:
            self._file.writelines(letter.line() + b"\n" for letter in letters)
            self._file.flush()
        except OSError as error:
            raise SinkUnusable(
                f"dead letters cannot be written: {error}; keep the output open, or name a side"
                " topic for them"
            ) from error

    def close(self) -> None:
        pass


class DeadTopic:
    """A target that sends letters to a side topic, where all replicas acknowledge them.

    `settings` are librdkafka's.
    """

    def __init__(self, brokers: str, topic: str, settings: Mapping[str, Any] | None = None) -> None:
        self._topic = topic
        self._failures: list[str] = []
        self._producer = Producer(
            {
                **(settings or {}),
                "bootstrap.servers": brokers,
                "enable.idempotence": True,
                "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
            },
            logger=log,
        )

    def write(self, letters: Sequence[DeadLetter]) -> None:
        self._failures.clear()
        try:
            for letter in letters:
                self._send(letter.line())
        except (BufferError, KafkaException) as error:
            self._failures.append(str(error))
        waiting = self._producer.flush(DELIVERY_TIMEOUT_S + 1)
        if waiting:
            self._producer.purge()
            self._producer.flush(PURGE_S)
        if waiting or self._failures:
            reason = self._failures[0] if self._failures else f"{waiting} not acknowledged"
            raise SinkUnavailable(f"dead letters do not reach topic {self._topic}: {reason}")

    def close(self) -> None:
        self._producer.flush(PURGE_S)

    def _send(self, value: bytes) -> None:
        self._producer.produce(self._topic, value=value, on_delivery=self._note_delivery)
        self._producer.poll(0)

    def _note_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error.str())
