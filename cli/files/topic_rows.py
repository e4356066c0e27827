"""Reads the records of an input topic as rows of a recording, with any known header names.

The header names are those of the preset whose source header the first record has. The record's own
time is its `arrival`. The topic is read from its beginning to the end that it has at the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any, Final

import orjson

from agents.kafka.brokers import Brokers
from cli.audit.topic import AuditedTopic
from inorder import rfc3339
from inorder.contract import PRESETS, HeaderNames
from recordings.file import InputError
from topology.records.line_reader import Row

NS_PER_MS: Final = 1_000_000


class TopicRows:
    """The first `most` records of a topic, each with its arrival time in ns.

    Raises `InputError` if the topic cannot be read or is empty, and `Refused` if it does not exist.

    Attributes:
        preset: Name of the preset of headers, empty for the plain one or an unknown one.
        is_foreign: Whether the first record has no source header of any preset.
        partitions: The number of partitions of the topic.
    """

    def __init__(self, brokers: Brokers, topic: str, most: int) -> None:
        with closing(AuditedTopic(brokers, topic, None, None)) as read:
            self.partitions, self.has_append_time = read.partitions, read.appends
            self.records = list(islice(read.records(), most))
        if not self.records:
            raise InputError(f"{topic} of {brokers.servers} has no records; publish some first")
        first = {name for name, _ in self.records[0][1].headers}
        found = next((name for name in PRESETS if PRESETS[name].source in first), None)
        self.is_foreign = found is None
        self.preset = "" if found in (None, "plain") else found
        self._names = PRESETS[found or "plain"]

    def rows(self) -> Iterator[Row]:
        """Yield the records as rows, read by the header contract, in the order of arrival."""
        for number, (at_ns, message) in enumerate(self.records, 1):
            yield _to_row(number, message, at_ns, self._names)


def _to_row(number: int, message: Any, arrival_ns: int, names: HeaderNames) -> Row:
    headers = {name: value or b"" for name, value in message.headers}
    values: dict[str, Any] = {"arrival": arrival_ns}
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
