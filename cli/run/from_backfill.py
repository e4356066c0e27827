"""`inorder worker --from-backfill DIR` starts a live worker where a backfill ended.

DIR is the `--out` of a backfill of archives that ran with `--no-to-end`. Its `_state` has the state
of each group of streams. A worker's state is divided by stage and partition, so the saved state is
distributed to them (topology.flow.share). In the output of a stage, the partition of a stream is
the one to which stages write it. For the input, the archive records which partitions have the
records of a stream or of its sources, and at which offset each partition continues.

A state that does not fit is refused, with the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, TypeGuard

import click
from aiokafka.structs import TopicPartition

from agents.kafka.stage_topics import ORDERED, RAW
from agents.stage.arrangement import Arrangement
from agents.stage.history import History
from agents.stage.outlet import partition_of
from agents.state.changelog import StateRefused
from cli.topology_file import Refused, refusing
from spark_analytics.executors.setting import difference, digests, setting_of
from topology.config import Topology
from topology.config.stages import JOIN, MERGE
from topology.flow.replay import SavedReplay, groups
from topology.flow.share import share_of
from topology.model.event import Event
from topology.model.outcome import Malformed
from topology.wire.line_reader import Content

OPTION: Final = "--from-backfill"
DIGITS: Final = 16

from_backfill_option = click.option(
    OPTION,
    "backfill",
    envvar="INORDER_FROM_BACKFILL",
    metavar="DIR",
    help="Begin at the end of this backfill, which ran with --no-to-end.",
)


class Backfilled:
    """The histories that a backfill has left for the partitions of a topology.

    Raises `Refused` if the backfill ran another topology, or is unusable for a worker.
    """

    def __init__(self, address: str, topology: Topology, topology_path: str) -> None:
        self._topology = topology
        self._known, self._states = _opened(address)
        if self._known["files"]:
            raise Refused(
                f"{OPTION} {address}: was made from files, which have no offsets of the"
                " topics; archive the topics (inorder spark run archive) and backfill from the"
                " archive"
            )
        about = digests(setting_of(topology_path, topology))
        found = difference(self._known["topology"], about)
        if found.other:
            raise Refused(
                f"{OPTION} {address}: was written with another topology than {topology_path}"
                f" ({', '.join(found.other)}); start the worker with that one, or"
                " run the backfill again"
            )
        if found.again:
            names = ", ".join(sorted(found.came | found.left))
            raise Refused(
                f"{OPTION} {address}: its state does not fit, because queries were added or"
                f" removed ({names}); resume the backfill with {topology_path} first, which reads"
                " the history again"
            )
        whole = sha256(repr(sorted(about.items())).encode()).hexdigest()
        self._offsets: Mapping[str, int] = self._known["offsets"]
        last_ns = self._known["begin"][1]
        self._now_ns: int = 0 if last_ns is None else last_ns
        self.name = f"{whole[:DIGITS]}/{self._known['run']}/{self._known['begin'][0]}"

    def of(self, arrangement: Arrangement, source: TopicPartition) -> History:
        """Return the history of a partition, as `agents.stage.history` describes it."""
        here = _place(source.topic, source.partition)
        saved: list[SavedReplay] = []
        waiting: list[Event | Malformed] = []
        for number, group in enumerate(groups(self._topology)):
            part = Lying(self, arrangement, here, group)
            if not part.streams:
                continue
            state = _state_of(self._states.get(number))
            if arrangement.is_first:
                waiting += [each for each in state.waiting if _is_here(each, part)]
            if state.saved is not None and state.saved.now_ns is not None:
                operators = arrangement.operator_names
                saved.append(share_of(state.saved, self._topology, operators, part.streams, part))
        if arrangement.is_first and here == _place(arrangement.inputs[0], 0):
            # The last state has records that belong to no stream, and their partition is unknown.
            last = _state_of(self._states.get(len(groups(self._topology)))).waiting
            waiting += [each for each in last if isinstance(each, Event | Malformed)]
        next_offset = self._offsets.get(here, -1) + 1 if arrangement.is_first else 0
        return History(saved, waiting, next_offset, self._now_ns)

    def places_of(self, stream: str, arrangement: Arrangement) -> Sequence[str]:
        """Return the partitions that contain a stream's records in the topic that the stage reads.

        The result is empty for a stream without any records. Raises StateRefused if the backfill
        has not recorded the partitions.
        """
        if arrangement.reads != RAW:
            topics = self._topology.topics
            is_ordered = arrangement.reads == ORDERED
            topic = self._topology.streams[stream].output if is_ordered else topics.sequenced
            name = self._topology.partition_name_of(stream)
            return [_place(topic, partition_of(name, arrangement.partitions[topic]))]
        places: Mapping[str, Sequence[str]] | None = self._known.get("places")
        if places is None:
            raise StateRefused(
                f"{OPTION}: the backfill does not state the partitions of its streams; restore"
                " its _state/current.json as it was written, or run the backfill again"
            )
        return places.get(stream, ())

    def place_of(self, stream: str, source: str) -> str:
        """Return the partition of a source whose stream is in several partitions of the input.

        Raises StateRefused if the source has no known partition, or several.
        """
        found: Sequence[str] = self._known.get("sources", {}).get(stream, {}).get(source, ())
        if len(found) != 1:
            where = f"is in {', '.join(found)}" if found else "has no known partition"
            raise StateRefused(
                f"{OPTION}: stream {stream} is in several partitions, and its source {source}"
                f" {where}; a history can be continued only if each source is in one partition (run"
                " the backfill again if an older version wrote it)"
            )
        return found[0]


class Lying:
    """The streams of a group that are in the partition `here`.

    `streams` names them. A stream may be in several partitions, so calling the object returns
    whether a source of a stream is in this partition. The constructor raises StateRefused if the
    streams are in different partitions and the stage needs them in one.
    """

    def __init__(
        self, found: Backfilled, arrangement: Arrangement, here: str, group: Sequence[str]
    ) -> None:
        self._found = found
        self._here = here
        found_in = {name: found.places_of(name, arrangement) for name in group}
        self._spread = {name for name, places in found_in.items() if len(places) > 1}
        places = sorted({place for each in found_in.values() for place in each})
        operators = arrangement.operator_names
        if len(places) > 1 and (JOIN in operators or (self._spread and MERGE in operators)):
            raise StateRefused(
                f"{OPTION}: streams {', '.join(group)} are in {', '.join(places)}, and the stage"
                f" {arrangement.stage.name} needs them in one; put each stream, and those joined"
                " with it, into one partition, or divide the stages between reorder and merge"
            )
        self.streams = [name for name, each in found_in.items() if here in each]

    def __call__(self, stream: str, source: str) -> bool:
        if stream not in self._spread:
            return True
        return self._found.place_of(stream, source) == self._here


def _is_here(each: Content, part: Lying) -> TypeGuard[Event | Malformed]:
    if not isinstance(each, Event | Malformed) or each.stream not in part.streams:
        return False
    return each.source is None or part(each.stream, each.source)


def _opened(address: str) -> tuple[dict[str, Any], dict[int, str]]:
    """Return the notes on the backfill's last run, and the addresses of the groups' states."""
    try:
        from spark_analytics.backfill.place import PlaceRefused
        from spark_analytics.backfill.resuming import Resumed
        from topology.wire.marked import StateUnreadable
    except ImportError:
        raise Refused(
            f"{OPTION} needs pyarrow; install the extra `files` (pip install inorder-engine[files])"
        ) from None
    with refusing(PlaceRefused, StateUnreadable):
        resumed = Resumed(address, reader=OPTION)
        return resumed.known, resumed.states()


def _state_of(address: str | None) -> Any:
    from spark_analytics.backfill.place import file_system
    from spark_analytics.backfill.state import GroupState, unpacked
    from topology.wire.marked import StateUnreadable

    if address is None:
        return GroupState(None, (), {})
    files, path = file_system(address, OPTION)
    try:
        with files.open_input_stream(path) as file:
            return unpacked(file.read())
    except (OSError, StateUnreadable) as wrong:
        raise StateRefused(f"{OPTION}: {address}: {wrong}") from None


def _place(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"
