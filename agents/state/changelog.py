"""Reads and encodes the changelog, a task's authoritative state in a compacted Kafka topic.

Each stage has one changelog topic per input topic, with a partition for each task. Its records are
written in the transaction of a checkpoint, together with the outputs and the input offsets. So all
three become visible together or not at all. Keys are text, and values are msgpack. A removed key
has a tombstone:

    progress               position of the state in the input (`Progress`)
    state/<operator key>   entry of an operator (topology.base.operator)
    page/<n>               notes on buffered events (agents.state.held)
    record/<offset>        whole record of an event that is buffered for long

`progress` has the number of the other entries of the state, and their digest
(`agents.state.stores.seal`). So any loss is noticed: a topic recreated while a worker runs, a
missing beginning or end, or an older copy of the topic.

Brokers compact at unpredictable times, and never the segment that is being written. So a small
state is written whole once a restore would read many records (`LONG`). It is small if it has at
most `MOST_WHOLE` entries and `MOST_WHOLE_BYTES`, and no whole records. `progress` then has the
changelog offset at which the whole state begins, in `since`, and a restore reads only from there.
If the result is not a whole state, everything is read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import msgspec
from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader
from codec.face import Unreadable
from topology.config.change import Contract, StreamContract

PROGRESS: Final = b"progress"
STATE: Final = "state/"
PAGE: Final = "page/"
RECORD: Final = "record/"
STATE_FORMAT: Final = 3
"""Version of the layout of `Progress`, pages and records, but not of the operators' states.

A state with another version is refused, and never read by guesswork. `topology.state.saved` says
which version to raise after a change.
"""

NOTHING_READ: Final = -1
"""The next offset of a lane of which nothing has been read."""

LONG: Final = 100_000
"""A changelog counts as long when it has grown by more than this many offsets.

Reading that many records takes a quarter of a second.
"""

TIMES_WHOLE: Final = 4
"""Minimum growth of a long changelog in offsets, for each entry of the state."""

MOST_WHOLE: Final = 20_000
"""Maximum number of entries of a state that is written whole; writing takes a tenth of a second."""

MOST_WHOLE_BYTES: Final = 4 << 20

TAIL: Final = 1_000
"""The last progress is searched first in this many offsets before the end of a changelog."""

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode


Readings = dict[int, dict[str, StreamContract]]

OnProgress = Callable[[int, int], object]
"""A function that receives the position in the changelog, and the changelog's end."""


class StateRefused(Exception):
    """The worker cannot continue with this state; the message states the remedy."""


class LaneProgress(msgspec.Struct):
    """The position of the state in one more input partition of a task.

    Attributes:
        next_offset: The next input offset.
        arrival: Snapshot of the arrival clock.
        topic_id: The input topic's id.
    """

    topic: str
    partition: int
    next_offset: int
    arrival: list[int] = []
    topic_id: str = ""


class BareProgress(msgspec.Struct):
    """The progress of a state, with the fields that every format has.

    A value that cannot be decoded gives the defaults.

    Attributes:
        next_offset: The next input offset.
        arrival: Snapshot of the arrival clock.
        contract: The contract under which the state was written (`contract_of`).
        topic_id: The input topic's id, which differs for a recreated topic; "" if the brokers
          give none.
        format: Format of the whole state.
        entries: Number of all other entries of the state.
        digest: Digest of all other entries of the state.
        since: Changelog offset at or after which every entry was last written.
        lanes: The positions in the other input partitions, in a task that reads several.
    """

    next_offset: int = 0
    arrival: list[int] = []
    contract: msgspec.Raw = msgspec.Raw()
    topic_id: str = ""
    format: int = 0
    entries: int = -1
    digest: int = -1
    since: int = 0
    lanes: list[LaneProgress] = []

    def offsets(self, source: TopicPartition) -> dict[TopicPartition, int]:
        """Return the next offset of each input partition of the task of this name."""
        others = {TopicPartition(each.topic, each.partition): each for each in self.lanes}
        return {source: self.next_offset, **{at: each.next_offset for at, each in others.items()}}


class Progress(BareProgress):
    """The progress of a state of today's format.

    Attributes:
        history: Name of the history with which it began (`agents.restore.history`); "" if none.
        midstream: Parts that begin inside their stream, for streams without a state
          (`topology.stage.stage`).
        readings: The settings for reading records from before changes of the topology file. Each
          applies to the buffered records of its lane below its key, a number of an event
          (`topology.stage.lanes`).
    """

    history: str = ""
    midstream: int = msgspec.field(default=0, name="amid")
    readings: Readings = {}


def instant_of(state: BareProgress) -> tuple[int, ...]:
    """Return a key that sorts the states of one partition by age, the latest last.

    From one checkpoint to the next, the input offset or the time has advanced.
    """
    others = sum(each.next_offset + sum(each.arrival[:1]) for each in state.lanes)
    return (state.next_offset + others, *state.arrival[:1])


def claim_of(state: Mapping[bytes, bytes]) -> BareProgress | None:
    """Return the progress of a state; None if the state has none."""
    value = state.get(PROGRESS)
    return None if value is None else _decode_claim(value)


def _decode_claim(value: bytes) -> BareProgress:
    try:
        return msgspec.msgpack.decode(value, type=BareProgress)
    except msgspec.MsgspecError:
        return BareProgress()


async def was_aborted(
    logs: LogReader,
    partition: TopicPartition,
    since: int,
    source: TopicPartition,
    offsets: Mapping[TopicPartition, int],
) -> bool:
    """Return whether the changelog has an aborted checkpoint with these input offsets.

    Any checkpoint of the task `source` with these offsets from `since` on counts, committed or
    aborted, because the caller knows that none was committed. Cost: reading all records from
    `since` on.
    """
    first, end = await logs.bounds(partition)
    pieces = logs.read_range(partition, max(first, since), end, with_aborted=True)
    async with aclosing(pieces):
        async for records, _ in pieces:
            for record in records:
                is_progress = not isinstance(record, Unreadable) and record.key == PROGRESS
                if is_progress:
                    found = _decode_claim(record.value or b"").offsets(source)
                    if all(found.get(at) == offset for at, offset in offsets.items()):
                        return True
    return False


def contract_of(state: BareProgress) -> Contract:
    """Return the contract under which the state was written.

    Raises StateRefused if it has another layout, which is possible before the first release.
    """
    try:
        return msgspec.msgpack.decode(state.contract, type=Contract)
    except msgspec.MsgspecError as wrong:
        raise StateRefused(
            f"a state names a contract of another layout ({wrong}); go on with the version that"
            " wrote it, or start again with other names (docs/operate/change.md)"
        ) from wrong


def read_progress(value: bytes, whose: str, anew: str) -> Progress:
    """Return the decoded progress of a partition's state; `whose` names the partition in errors.

    Raises StateRefused if it has another format; `anew` says in the error how to start without the
    state.
    """
    found = _decode_claim(value).format
    if found != STATE_FORMAT:
        raise StateRefused(
            f"the state of {whose} has format {found}, and this version of inorder reads format"
            f" {STATE_FORMAT}; go on with the version that wrote it, or {anew}"
        )
    return msgspec.msgpack.decode(value, type=Progress)


def encode_changes(changes: Mapping[str, Any], prefix: str = "") -> dict[bytes, bytes | None]:
    """Encode changes, with `prefix` before each key."""
    return {
        (prefix + key).encode(): None if value is None else encode(value)
        for key, value in changes.items()
    }


class LogRead(NamedTuple):
    """The changes that were read from a changelog, and its end offset."""

    changes: dict[bytes, bytes | None]
    end: int

    def entries(self) -> dict[bytes, bytes]:
        """Return the values by key, without the keys that were removed last."""
        return {key: value for key, value in self.changes.items() if value is not None}


async def last_claim(logs: LogReader, partition: TopicPartition) -> BareProgress | None:
    """Return the last progress in the changelog; None if there is no state."""
    first, end = await logs.bounds(partition)
    for begin in dict.fromkeys((max(first, end - TAIL), first)):
        read = await read_changelog(logs, partition, begin)
        claim = claim_of(read.entries())
        if claim is not None:
            return claim
    return None


async def read_changelog(
    logs: LogReader,
    partition: TopicPartition,
    position: int | None,
    on_progress: OnProgress = lambda *_: None,
) -> LogRead:
    """Return the changes from `position` (None: the beginning) to the end.

    `on_progress` is called repeatedly with the position reached and the end. Only committed records
    are read. The caller has fenced the former owner, so no transaction is open and the end does not
    move. Raises StateRefused if a record is unreadable.
    """
    first, end = await logs.bounds(partition)
    begin = first if position is None else max(position, first)
    changes: dict[bytes, bytes | None] = {}
    async with aclosing(read_pieces(logs, partition, begin, end)) as found:
        async for piece, reached in found:
            changes |= piece
            on_progress(reached, end)
    return LogRead(changes, end)


async def read_pieces(
    logs: LogReader, partition: TopicPartition, begin: int, end: int
) -> AsyncGenerator[tuple[dict[bytes, bytes | None], int]]:
    """Yield the changes from `begin` to `end` in pieces, each with the position after it.

    The last piece may go beyond `end`. Close the generator if you stop early. Raises StateRefused
    if a record is unreadable.
    """
    async with aclosing(logs.read_range(partition, begin, end)) as stretch:
        async for records, reached in stretch:
            for record in records:
                if isinstance(record, Unreadable):
                    raise StateRefused(
                        f"{partition.topic}/{partition.partition} cannot be read at offsets"
                        f" {record.first} to {record.offset}: {record.detail}; restore the topic"
                    )
            yield {record.key: record.value for record in records}, reached
