"""The truth about a partition's state: a compacted Kafka topic.

One changelog topic per stage and input topic, with as many partitions as the input. Its
records are written in the transaction of a checkpoint, beside the outputs and the input
offset, so all three become visible together or not at all. Keys are text, values
msgpack, a tombstone where a key is gone:

    progress               where in the input the state stands (`Progress`)
    state/<operator key>   what an operator keeps (topology.model.operator)
    page/<n>               which events are held (agents.state.held)
    record/<offset>        an event held for long, whole

`progress` says how many entries the state has beside it, and their digest
(agents.state.stores.seal). So it is known whether what a changelog holds is all that was written,
however it was lost: the topic made anew while a worker runs, its beginning or its end gone, an
older copy of it.

Proved by: tests/agents/state/test_changelog.py, tests/end_to_end/test_lost_changelogs.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader

PROGRESS: Final = b"progress"
STATE: Final = "state/"
PAGE: Final = "page/"
RECORD: Final = "record/"
STATE_FORMAT: Final = 4
"""Raise it when the layout of any snapshot changes (what an operator's `snapshot` and
`changes` say, pages, records, `Progress`): a state of another number is refused, never guessed
at."""

SAYS_LATE: Final = 4
"""From this format on pages say which held events are late; before it their records do."""

READABLE_FORMATS: Final = frozenset({2, 3, STATE_FORMAT})
"""In format 2 pages note other places of held events, which `topology.flow.graph` understands; a
version that writes format 2 would not understand those of 3. Up to format 3 MERGE holds no late
event; a version that writes 3 would not understand one."""

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode


Tell = Callable[[int, int], None]
"""Position in the changelog, and its end."""


class StateRefused(Exception):
    """The state found belongs to another arrangement; the message says what to do."""


class Progress(msgspec.Struct):
    """Where the state stands: the next input offset, the arrival clock, and the
    arrangement of operators it was made by. `topic_id` is the input topic's own, which a
    topic of the same name made anew does not have; "" where brokers give none. `format` is the
    layout that all of the state has. `entries` and `digest` are those of all of the state but
    this. `history`: what it began with (agents.stage.history); "" where that was nothing."""

    next_offset: int
    arrival: list[int]
    arrangement: list[str]
    topic_id: str
    format: int
    entries: int
    digest: int
    history: str = ""


class Claim(msgspec.Struct):
    """What a state says of itself in any format; the older ones said less."""

    next_offset: int = 0
    arrival: list[int] = []
    topic_id: str = ""
    format: int = 0
    entries: int = -1
    digest: int = -1


def instant_of(state: Claim | Progress) -> tuple[int, ...]:
    """The later of two states of one partition has the greater one: each checkpoint has gone on
    in the input, or in time."""
    return (state.next_offset, *state.arrival[:1])


def claim_of(state: Mapping[bytes, bytes]) -> Claim | None:
    """None where it says nothing: there is no state, or not all of one."""
    value = state.get(PROGRESS)
    return None if value is None else _claim(value)


def _claim(value: bytes) -> Claim:
    try:
        return msgspec.msgpack.decode(value, type=Claim)
    except msgspec.MsgspecError:
        return Claim()


def read_progress(value: bytes, whose: str) -> Progress:
    """StateRefused where the state of `whose` partition has a format that this version does not
    read."""
    found = _claim(value).format
    if found not in READABLE_FORMATS:
        known = " and ".join(map(str, sorted(READABLE_FORMATS)))
        raise StateRefused(
            f"the state of {whose} has format {found}, and this version of inorder reads {known};"
            " go on with the version that wrote it, or set another `application:`"
            " to begin anew with the first record of the input"
        )
    return msgspec.msgpack.decode(value, type=Progress)


def encoded(changes: Mapping[str, Any], prefix: str = "") -> dict[bytes, bytes | None]:
    """`prefix` stands before each key."""
    return {
        (prefix + key).encode(): None if value is None else encode(value)
        for key, value in changes.items()
    }


@dataclass(frozen=True, slots=True)
class LogRead:
    """What was read, and the changelog's end."""

    changes: dict[bytes, bytes | None]
    end: int


async def read_changelog(
    logs: LogReader, partition: TopicPartition, position: int | None, tell: Tell
) -> LogRead:
    """The changes from `position` (None: the beginning) to the end.

    `tell` hears how far it is, as it goes on.

    Reads committed records only. The caller has fenced the former owner, so no
    transaction is open and the end stands still.
    """
    first, end = await logs.bounds(partition)
    begin = first if position is None else max(position, first)
    changes: dict[bytes, bytes | None] = {}
    async for records, reached in logs.stretch(partition, begin, end):
        for record in records:
            changes[record.key] = record.value
        tell(reached, end)
    return LogRead(changes, end)
