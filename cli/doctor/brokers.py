"""Finds faults of the brokers themselves: their version, their limits, and their clock.

| check | reason |
|-------|--------|
| whether they show their settings | a broker embedded in a process has none and stores nothing |
| whether topics have ids | before version 2.8 there are none, so a recreated topic goes unnoticed |
| `transaction.max.timeout.ms` | a stage that asks for more does not start |
| `transactional.id.expiration.ms`, `offsets.retention.minutes` | must outlast a stop of a stage |
| `auto.create.topics.enable` | a topic made by mistake has the wrong settings |
| newest arrival time of the inputs | if this machine's clock is behind, the stages are delayed |
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from cli.doctor.finding import Finding, error, warning
from cli.doctor.open_transactions import list_offsets
from topology.config import Topology

TIMEOUT_S: Final = 30.0
NS_PER_MS: Final = 1_000_000
DAY_MS: Final = 86_400_000
MINUTE_MS: Final = 60_000
TIMELY_MS: Final = 1_000
"""How far this machine's clock may lag behind the brokers' clocks without a warning."""


@dataclass(frozen=True, slots=True)
class SeenBrokers:
    """The brokers' settings and clock, as the check found them.

    Attributes:
        config: Settings of one broker, empty if unknown.
        ahead_ms: How far the newest arrival time of the inputs is ahead of this machine's clock.
            None if the inputs have no records.
    """

    count: int
    gives_ids: bool = True
    config: Mapping[str, str] = field(default_factory=dict)
    ahead_ms: int | None = None
    shows_settings: bool = True
    """Whether the brokers report the settings of topics and their own; embedded ones do not."""


def newest_after_now_ms(admin: AdminClient, topics: Mapping[str, int]) -> int | None:
    """Return how far the newest record's timestamp is ahead of this machine's clock; blocks.

    `topics` maps the inputs to their numbers of partitions. The result is None without records.
    """
    places = [(name, number) for name, count in topics.items() for number in range(count)]
    newest = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
    found = list_offsets(admin, places, newest, TIMEOUT_S, figure="timestamp")
    newest_ms = max(found.values(), default=-1)
    return None if newest_ms < 0 else newest_ms - time.time_ns() // NS_PER_MS


def broker_findings(topology: Topology, seen: SeenBrokers) -> Iterator[Finding]:
    if not seen.shows_settings:
        yield warning(
            "brokers",
            "do not show the settings of topics, because they are embedded in `inorder dev` or"
            " `inorder worker`",
            "nothing to do in a trial; to keep data, use Kafka: inorder dev --broker kafka",
        )
    if not seen.gives_ids:
        yield warning(
            "brokers",
            "give topics no ids, so workers do not notice that a topic was created again",
            "run brokers of version 2.8 or newer",
        )
    if seen.ahead_ms is not None and seen.ahead_ms > TIMELY_MS:
        yield warning(
            "clock",
            f"the newest record is {seen.ahead_ms} ms ahead of this machine's clock",
            "keep brokers and workers on NTP; results take time from the brokers alone",
        )
    yield from _check_limits(topology, seen.config)


def _check_limits(topology: Topology, config: Mapping[str, str]) -> Iterator[Finding]:
    wanted_ms = topology.transaction_timeout_ns // NS_PER_MS
    longest_ms = int(config.get("transaction.max.timeout.ms", wanted_ms))
    if longest_ms < wanted_ms:
        yield error(
            "brokers",
            f"transaction.max.timeout.ms is {longest_ms}, and stages request {wanted_ms}",
            f"write `transaction_timeout: {longest_ms}ms`, or raise the brokers' limit",
        )
    for key, ms_per in (
        ("transactional.id.expiration.ms", 1),
        ("offsets.retention.minutes", MINUTE_MS),
    ):
        kept = int(config.get(key, DAY_MS))
        if kept * ms_per < DAY_MS:
            yield warning(
                "brokers",
                f"{key} is {kept}: brokers forget a stage that is stopped for longer",
                "raise it to a day or more; the default is seven days",
            )
    if config.get("auto.create.topics.enable") == "true":
        yield warning(
            "brokers",
            "auto.create.topics.enable is true: a misspelled name, or a client that starts before"
            " `inorder topics create`, creates a topic with the wrong settings",
            "set it to false",
        )
