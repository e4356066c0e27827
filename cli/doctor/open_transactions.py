"""Finds transactions that stay open, because readers of committed records wait for their end.

For such a reader, a partition ends at the last stable offset, before the first record of an open
transaction. While a stage runs, this offset advances within its `checkpoint`. Brokers end an
abandoned transaction within `transaction_timeout`. So a partition with an open transaction is
checked again every `PAUSE_S`, until the offset has advanced or that time is over. A partition
without an open transaction is checked once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

PAUSE_S: Final = 0.5

Place = tuple[str, int]
"""A topic and the number of a partition."""


def find_staying_open(
    admin: AdminClient, topics: Mapping[str, int], longest_s: float, timeout_s: float
) -> dict[Place, int]:
    """Return the offset of the transaction in each partition that has one open for `longest_s`.

    `topics` maps topics to their numbers of partitions. Blocks for at most `longest_s`, and
    `timeout_s` for each request.
    """
    every = [(topic, number) for topic, count in topics.items() for number in range(count)]
    begun_s = time.monotonic()
    open_at = _find_open(admin, every, timeout_s)
    while open_at and time.monotonic() - begun_s < longest_s:
        time.sleep(PAUSE_S)
        now = _find_open(admin, open_at, timeout_s)
        open_at = {place: at for place, at in open_at.items() if now.get(place) == at}
    return open_at


def _find_open(admin: AdminClient, places: Iterable[Place], timeout_s: float) -> dict[Place, int]:
    """Return the last stable offset of each partition that has an open transaction now."""
    asked = list(places)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    stable = list_offsets(admin, asked, latest, timeout_s, IsolationLevel.READ_COMMITTED)
    ends = list_offsets(admin, asked, latest, timeout_s)
    return {place: stable[place] for place in asked if stable.get(place, 0) < ends.get(place, 0)}


def list_offsets(
    admin: AdminClient,
    places: Iterable[Place],
    spec: OffsetSpec,
    timeout_s: float,
    level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    figure: str = "offset",
) -> dict[Place, int]:
    """Return an offset, or another `figure`, of each partition; blocks.

    Partitions that the brokers do not answer for are left out, because a missing leader is reported
    elsewhere.
    """
    asked = {TopicPartition(*place): spec for place in places}
    if not asked:
        return {}
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=timeout_s)
    found = {}
    for partition, answer in answers.items():
        try:
            place = (partition.topic, partition.partition)
            found[place] = getattr(answer.result(timeout_s), figure)
        except (KafkaException, TimeoutError):
            continue
    return found
