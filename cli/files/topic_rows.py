"""The records of an input topic as rows of a recording, whatever their headers are called.

The names are those of the preset whose source header the first record has. The record's own time
serves as `arrival`. The topic is read from its beginning to its end at the start.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Final

import orjson
from aiokafka.errors import KafkaError

from agents.kafka.brokers import Brokers
from agents.kafka.whole_topic import NoTopic, partitions_of, records_of
from cli.topology_file import Refused
from inorder import rfc3339
from inorder.contract import PRESETS, HeaderNames
from producers.recording.file import InputError
from topology.wire.line_reader import Row

NS_PER_MS: Final = 1_000_000
LOG_APPEND_TIME: Final = 1


class TopicRows:
    """At most `most` records. `preset` is empty where it is the plain one, or none is known;
    `is_foreign`: the first record has no header that a contract begins with; `partitions`: how many
    the topic has. Raises `InputError`; `Refused` where there is no such topic."""

    def __init__(self, brokers: Brokers, topic: str, most: int) -> None:
        try:
            self.partitions = asyncio.run(partitions_of(brokers, topic))
            messages = asyncio.run(_records(brokers, topic, most))
        except NoTopic:
            raise Refused(f"--topic {topic}: there is no such topic") from None
        except (KafkaError, TimeoutError) as error:
            raise InputError(f"{topic} cannot be read: {error}") from None
        if not messages:
            raise InputError(f"{topic} of {brokers.servers} holds no records; publish some first")
        first = {name for name, _ in messages[0].headers}
        found = next((name for name in PRESETS if PRESETS[name].source in first), None) or "plain"
        self.messages = messages
        self.is_foreign = not any(PRESETS[name].source in first for name in PRESETS)
        self.has_append_time = messages[0].timestamp_type == LOG_APPEND_TIME
        self.preset = "" if found == "plain" else found
        self._names = PRESETS[found]

    def rows(self) -> list[Row]:
        """By the header contract, in the order of time."""
        ordered = sorted(self.messages, key=lambda message: message.timestamp)
        return [_row(number, message, self._names) for number, message in enumerate(ordered, 1)]


async def _records(brokers: Brokers, topic: str, most: int) -> list[Any]:
    found: list[Any] = []
    async with aclosing(records_of(brokers, topic)) as records:
        async for record in records:
            found.append(record)
            if len(found) == most:
                break
    return found


def _row(number: int, message: Any, names: HeaderNames) -> Row:
    headers = {name: value or b"" for name, value in message.headers}
    values: dict[str, Any] = {"arrival": message.timestamp * NS_PER_MS}
    for key, name in names._asdict().items():
        if name in headers:
            text = headers[name].decode(errors="replace")
            is_number = key in ("seq", "epoch", "ts") and text.removeprefix("-").isdigit()
            values[key] = int(text) if is_number else text
    is_instant = isinstance(values.get("ts"), str)
    if is_instant:
        values["ts"] = rfc3339.parse_ns(str(values["ts"]).encode(errors="replace"))
    try:
        values["payload"] = orjson.loads(message.value or b"null")
    except orjson.JSONDecodeError:
        values["payload"] = None
    return Row(number, values, ts_is_instant=is_instant)
