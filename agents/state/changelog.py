"""The truth about a partition's state: a compacted Kafka topic.

One changelog topic per stage and input topic, with as many partitions as the input. Its
records are written in the transaction of a checkpoint, beside the outputs and the input
offset, so all three become visible together or not at all. Keys are text, values
msgpack, a tombstone where a key was removed:

    progress               where in the input the state is (`Progress`)
    state/<operator key>   what an operator keeps (topology.model.operator)
    page/<n>               which events are held (agents.state.held)
    record/<offset>        an event held for long, whole

`progress` has the number of the other entries of the state, and their digest
(agents.state.stores.seal). So it is known whether what a changelog holds is all that was written,
however it was lost: the topic made anew while a worker runs, its beginning or its end removed, an
older copy of it.

Brokers compact when they like, and never what is being written. So a state of at most `MOST_WHOLE`
entries and `MOST_WHOLE_BYTES`, with no event in it whole, is written whole once the records that a
restore would read are many (`LONG`), and `progress` has where that begins, in `since`: what
lies before is not read. Where that does not make a whole state all is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
"""The layout of what is around the operators' states: `Progress`, pages and records. After the
first release, raise it when one of them changes: a state of another number is refused, never
guessed at. `topology.model.kept` has a table of which version to raise."""

LONG: Final = 100_000
"""Records of a changelog, read in a quarter of a second."""

TIMES_WHOLE: Final = 4
"""At least so many changes come between two states that are written whole."""

MOST_WHOLE: Final = 20_000
"""Entries: cut in a tenth of a second."""

MOST_WHOLE_BYTES: Final = 4 << 20

TAIL: Final = 1_000
"""Offsets at the end of a changelog, where its last progress is looked for."""

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode


Readings = dict[int, dict[str, StreamContract]]

OnProgress = Callable[[int, int], object]
"""Position in the changelog, and its end."""


class StateRefused(Exception):
    """A state that this worker cannot go on with; the message says what to do."""


class Claim(msgspec.Struct):
    """How far a state is, in the fields that one of any format has, as far as they can be read: the
    next input offset, the arrival clock, and the contract that it was made under (`contract_of`).
    `topic_id` is the input topic's own, which a topic of the same name made anew does not have; ""
    where brokers give none. `format` is the layout that all of the state has. `entries` and
    `digest` are those of all of the state but this. `since`: no entry was written last before this
    offset of the changelog."""

    next_offset: int = 0
    arrival: list[int] = []
    contract: msgspec.Raw = msgspec.Raw()
    topic_id: str = ""
    format: int = 0
    entries: int = -1
    digest: int = -1
    since: int = 0


class Progress(Claim):
    """How far a state of today's format is. `history`: what it began with (agents.stage.history);
    "" where that was nothing. `amid`: what begins amid its stream, of streams without a state
    (topology.flow.stage). `readings`: how records were read before the topology file changed, by
    the offset below which that holds, for those that are still held."""

    history: str = ""
    amid: int = 0
    readings: Readings = {}


def instant_of(state: Claim) -> tuple[int, ...]:
    """The later of two states of one partition has the greater one: each checkpoint has advanced
    in the input, or in time."""
    return (state.next_offset, *state.arrival[:1])


def claim_of(state: Mapping[bytes, bytes]) -> Claim | None:
    """None where there is no state, or not all of one."""
    value = state.get(PROGRESS)
    return None if value is None else _claim(value)


def _claim(value: bytes) -> Claim:
    try:
        return msgspec.msgpack.decode(value, type=Claim)
    except msgspec.MsgspecError:
        return Claim()


async def was_aborted(
    logs: LogReader, partition: TopicPartition, since: int, next_offset: int
) -> bool:
    """Whether the changelog holds a checkpoint up to this input offset, from `since` on, committed
    or aborted. The caller knows that none so late was committed. Costs a reading of all that."""
    first, end = await logs.bounds(partition)
    pieces = logs.stretch(partition, max(first, since), end, with_aborted=True)
    async with aclosing(pieces):
        async for records, _ in pieces:
            for record in records:
                is_progress = not isinstance(record, Unreadable) and record.key == PROGRESS
                if is_progress and _claim(record.value or b"").next_offset == next_offset:
                    return True
    return False


def contract_of(state: Claim) -> Contract:
    """Decode the contract that the state was made under. StateRefused where it has another layout,
    as it may before the first release."""
    try:
        return msgspec.msgpack.decode(state.contract, type=Contract)
    except msgspec.MsgspecError as wrong:
        raise StateRefused(
            f"a state names a contract of another layout ({wrong}); go on with the version that"
            " wrote it, or begin anew with other names (docs/operate/change.md)"
        ) from wrong


def read_progress(value: bytes, whose: str, anew: str) -> Progress:
    """Decode how far the state of `whose` partition is. StateRefused where it has another format;
    `anew` says how to begin anew."""
    found = _claim(value).format
    if found != STATE_FORMAT:
        raise StateRefused(
            f"the state of {whose} has format {found}, and this version of inorder reads format"
            f" {STATE_FORMAT}; go on with the version that wrote it, or {anew}"
        )
    return msgspec.msgpack.decode(value, type=Progress)


def encoded(changes: Mapping[str, Any], prefix: str = "") -> dict[bytes, bytes | None]:
    """Each key begins with `prefix`."""
    return {
        (prefix + key).encode(): None if value is None else encode(value)
        for key, value in changes.items()
    }


class LogRead(NamedTuple):
    """What was read, and the changelog's end."""

    changes: dict[bytes, bytes | None]
    end: int


async def last_claim(logs: LogReader, partition: TopicPartition) -> Claim | None:
    """Return how far the state is, by the end of its changelog; None where there is no state."""
    first, end = await logs.bounds(partition)
    for begin in dict.fromkeys((max(first, end - TAIL), first)):
        read = await read_changelog(logs, partition, begin)
        claim = claim_of({key: value for key, value in read.changes.items() if value is not None})
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

    `on_progress` is called with how far it is, as it goes on.

    Reads committed records only. The caller has fenced the former owner, so no
    transaction is open and the end does not move.
    """
    first, end = await logs.bounds(partition)
    begin = first if position is None else max(position, first)
    changes: dict[bytes, bytes | None] = {}
    async for records, reached in logs.stretch(partition, begin, end):
        for record in records:
            if isinstance(record, Unreadable):
                raise StateRefused(
                    f"{partition.topic}/{partition.partition} cannot be read at offsets"
                    f" {record.first} to {record.offset}: {record.detail}; restore the topic"
                )
            changes[record.key] = record.value
        on_progress(reached, end)
    return LogRead(changes, end)
