"""The records of an input topic as rows of a recording, whatever their headers are called.

The names are those of the preset whose source header the first record bears. The record's own time
stands for `arrival`. Read from the beginning to where the topic ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from agents.kafka.security import Security
from cli.recording.file import InputError
from cli.topology_file import Refused
from inorder import rfc3339
from inorder.contract import PRESETS, HeaderNames
from topology.wire.line_reader import Row

AT_ONCE: Final = 1_000
WAIT_S: Final = 0.2
ASK_TIMEOUT_S: Final = 10.0
NS_PER_MS: Final = 1_000_000


class TopicRows:
    """At most `most` records. `preset` is empty where it is the plain one, or none is known.
    Raises `InputError`; `Refused` where there is no such topic."""

    def __init__(self, brokers: str, access: Security, topic: str, most: int) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": "inorder-init",  # the client wants one; nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
                **access.librdkafka(),
            }
        )
        try:
            messages = list(_messages(consumer, topic, most))
        finally:
            consumer.close()
        if not messages:
            raise InputError(f"{topic} of {brokers} holds no records; publish some first")
        first = {name for name, _ in messages[0].headers() or ()}
        found = next((name for name in PRESETS if PRESETS[name].source in first), None) or "plain"
        self.preset = "" if found == "plain" else found
        messages.sort(key=lambda message: message.timestamp()[1])
        self.rows = [
            _row(number, message, PRESETS[found]) for number, message in enumerate(messages, 1)
        ]


def _messages(consumer: Consumer, topic: str, most: int) -> Iterator[Any]:
    known = consumer.list_topics(topic, timeout=ASK_TIMEOUT_S).topics[topic].partitions
    if not known:
        raise Refused(f"--topic {topic}: there is no such topic")
    consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in known])
    unread, count = set(known), 0
    while unread and count < most:
        for message in consumer.consume(min(AT_ONCE, most - count), WAIT_S):
            error = message.error()
            if error is None:
                count += 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            else:
                raise InputError(f"{topic} cannot be read: {error.str()}")


def _row(number: int, message: Any, names: HeaderNames) -> Row:
    headers = {name: value or b"" for name, value in message.headers() or ()}
    values: dict[str, Any] = {"arrival": message.timestamp()[1] * NS_PER_MS}
    for key, name in names._asdict().items():
        if name in headers:
            text = headers[name].decode(errors="replace")
            is_number = key in ("seq", "epoch", "ts") and text.removeprefix("-").isdigit()
            values[key] = int(text) if is_number else text
    is_instant = isinstance(values.get("ts"), str)
    if is_instant:
        values["ts"] = rfc3339.parse_ns(str(values["ts"]).encode(errors="replace"))
    try:
        values["payload"] = orjson.loads(message.value() or b"null")
    except orjson.JSONDecodeError:
        values["payload"] = None
    return Row(number, values, ts_is_instant=is_instant)
