"""Transactions that stay open: whoever reads what is committed waits for their end.

The end of a log for such a reader (the last stable offset) lies before the first record of an open
transaction. That of a stage at work moves on within its `checkpoint`, and brokers end one that was
left behind within `transaction_timeout`. So a partition is looked at again, each `PAUSE_S`, until
its end for such a reader has moved, or that time is over. Without an open one it is one look.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

PAUSE_S: Final = 0.5

Place = tuple[str, int]
"""Topic and partition."""


def stay_open(
    admin: AdminClient, topics: Mapping[str, int], longest_s: float, timeout_s: float
) -> dict[Place, int]:
    """Where a transaction has been open for `longest_s`, and its offset. `topics`: how many
    partitions each has. Blocks for so long at most, and `timeout_s` a question."""
    every = [(topic, number) for topic, count in topics.items() for number in range(count)]
    begun_s = time.monotonic()
    open_at = _first_open(admin, every, timeout_s)
    while open_at and time.monotonic() - begun_s < longest_s:
        time.sleep(PAUSE_S)
        now = _first_open(admin, open_at, timeout_s)
        open_at = {place: at for place, at in open_at.items() if now.get(place) == at}
    return open_at


def _first_open(admin: AdminClient, places: Iterable[Place], timeout_s: float) -> dict[Place, int]:
    """The partitions that have one open now, and where its first record may be."""
    asked = list(places)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    stable = offsets(admin, asked, latest, timeout_s, IsolationLevel.READ_COMMITTED)
    ends = offsets(admin, asked, latest, timeout_s)
    return {place: stable[place] for place in asked if stable.get(place, 0) < ends.get(place, 0)}


def offsets(
    admin: AdminClient,
    places: Iterable[Place],
    spec: OffsetSpec,
    timeout_s: float,
    level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    figure: str = "offset",
) -> dict[Place, int]:
    """As far as they answer: a partition without a leader is reported elsewhere. Blocks."""
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
