"""`inorder worker --from-backfill DIR` starts a live worker where a backfill ended.

DIR is the `--out` of a backfill of archives that ran with `--no-to-end`. Its `_state` has the state
of each group of streams. A worker's state is divided by stage and task, so the saved state is
distributed to them (topology.stage.share). In the output of a stage, the partition of a stream is
the one to which stages write it. For the input, the archive records which partitions have the
records of a stream or of its sources, and at which offset each partition continues.

A state that does not fit is refused, with the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import click
from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import PartitionGroup
from agents.kafka.stage_topics import ORDERED, RAW
from agents.restore.history import History
from agents.stage.arrangement import Arrangement
from agents.stage.outlet import partition_of
from agents.state.changelog import StateRefused
from cli.topology_file import Refused, refusing
from spark_analytics.executors.setting import difference, digests, setting_of
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.config import Topology
from topology.config.stages import JOIN, MERGE
from topology.records.line_reader import Content
from topology.stage.lanes import number_of
from topology.stage.replay import SavedReplay, group_all_streams
from topology.stage.share import share_of

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
    """The histories that a backfill has left for the tasks of a topology.

    Raises `Refused` if the backfill ran another topology, or is unusable for a worker.
    """

    def __init__(self, address: str, topology: Topology, topology_path: str) -> None:
        self._topology = topology
        self._known, self._states = _open_backfill(address)
        if self._known["files"]:
            raise Refused(
                f"{OPTION} {address}: was made from files, which have no offsets of the"
                " topics; archive the topics (inorder spark run archive) and backfill from the"
                " archive"
            )
        about = digests(setting_of(topology_path, topology))
        found = difference(self._known["topology"], about)
        if found:
            raise Refused(
                f"{OPTION} {address}: was written with another topology than {topology_path}"
                f" ({', '.join(found)}); start the worker with that one, or"
                " run the backfill again"
            )
        whole = sha256(repr(sorted(about.items())).encode()).hexdigest()
        self._offsets: Mapping[str, int] = self._known["offsets"]
        last_ns = self._known["begin"][1]
        self._now_ns: int = 0 if last_ns is None else last_ns
        self.name = f"{whole[:DIGITS]}/{self._known['run']}/{self._known['begin'][0]}"

    def of(self, arrangement: Arrangement, source: TopicPartition) -> History:
        """Return the history of a task, as `agents.restore.history` describes it."""
        lanes = {lane: number for number, lane in arrangement.lanes_of(source)}
        saved: list[SavedReplay] = []
        waiting: list[Event | Malformed] = []
        for number, group in enumerate(group_all_streams(self._topology)):
            part = Lying(self, arrangement, lanes, group)
            if not part.streams:
                continue
            state = _state_of(self._states.get(number))
            if arrangement.is_first:
                waiting += _select_in_lanes(state.waiting, part.lane_of_content)
            if state.saved is not None and state.saved.now_ns is not None:
                operators = arrangement.operator_names
                saved.append(
                    share_of(state.saved, self._topology, operators, part.streams, part.lane_of)
                )
        first = TopicPartition(arrangement.inputs[0], 0)
        if arrangement.is_first and first in lanes:
            # The last state has records that belong to no stream, and their partition is unknown.
            last = _state_of(self._states.get(len(group_all_streams(self._topology)))).waiting
            waiting += _select_in_lanes(last, lambda _: lanes[first])
        offsets = self._offsets if arrangement.is_first else {}
        next_offsets = {lane: offsets.get(_name_of(lane), -1) + 1 for lane in lanes}
        return History(saved, waiting, next_offsets, self._now_ns)

    def places_of(self, stream: str, arrangement: Arrangement) -> Sequence[TopicPartition]:
        """Return the partitions that contain a stream's records in the topic that the stage reads.

        The result is empty for a stream without any records. Raises StateRefused if the backfill
        has not recorded the partitions.
        """
        if arrangement.reads != RAW:
            topics = self._topology.topics
            is_ordered = arrangement.reads == ORDERED
            topic = self._topology.streams[stream].output if is_ordered else topics.sequenced
            name = self._topology.partition_name_of(stream)
            return [TopicPartition(topic, partition_of(name, arrangement.partitions[topic]))]
        places: Mapping[str, Sequence[str]] | None = self._known.get("places")
        if places is None:
            raise StateRefused(
                f"{OPTION}: the backfill does not state the partitions of its streams; restore"
                " its _state/current.json as it was written, or run the backfill again"
            )
        found, config = places.get(stream, ()), self._topology.streams[stream]
        if not found and config.fields is not None:
            # The backfill notes what headers name, and those of such a topic may name nothing.
            found = [log for log in self._offsets if _place(log).topic == config.input]
        return [_place(each) for each in found]

    def place_of(self, stream: str, source: str) -> TopicPartition:
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
        return _place(found[0])


class Lying:
    """The streams of a group that are in the input partitions of a task.

    `lanes` are these partitions, with their numbers. `streams` has the lanes of each stream. A
    stream without any records is where the others of its group are. The constructor raises
    StateRefused if the streams are in different tasks and the stage needs them in one.
    """

    def __init__(
        self,
        found: Backfilled,
        arrangement: Arrangement,
        lanes: Mapping[TopicPartition, int],
        group: Sequence[str],
    ) -> None:
        self._found = found
        self._lanes = lanes
        self._places = {name: found.places_of(name, arrangement) for name in group}
        spread = any(len(self._tasks(each, arrangement)) > 1 for each in self._places.values())
        places = sorted({place for each in self._places.values() for place in each})
        operators = arrangement.operator_names
        if len(self._tasks(places, arrangement)) > 1 and (
            JOIN in operators or (spread and MERGE in operators)
        ):
            raise StateRefused(
                f"{OPTION}: streams {', '.join(group)} are in"
                f" {', '.join(map(_name_of, places))}, and the stage {arrangement.stage.name} needs"
                " them in one; put each stream, and those joined with it, into one partition, or"
                " leave out `keyed_by: stream`, and run the backfill again"
            )
        self.streams: dict[str, list[int]] = {}
        for name, each in self._places.items():
            if not lanes.keys().isdisjoint(each or places):
                topic = each[0].topic if each else arrangement.topology.streams[name].input
                self.streams[name] = [at for lane, at in lanes.items() if lane.topic == topic]

    @staticmethod
    def _tasks(places: Sequence[TopicPartition], arrangement: Arrangement) -> set[PartitionGroup]:
        return {arrangement.group_of(place) for place in places}

    def lane_of(self, stream: str, source: str | None) -> int | None:
        """Return the lane of a source; None if it is not in this task.

        A record without a source counts for the first partition of its stream.
        """
        place, *others = self._places[stream]
        if others and source is not None:
            place = self._found.place_of(stream, source)
        return self._lanes.get(place)

    def lane_of_content(self, each: Event | Malformed) -> int | None:
        """Return the lane of an event or dead letter; None if it is not in this task."""
        if each.stream is None or each.stream not in self.streams:
            return None
        return self.lane_of(each.stream, each.source)


def _select_in_lanes(
    waiting: Iterable[Content], lane_of: Callable[[Event | Malformed], int | None]
) -> Iterator[Event | Malformed]:
    """Yield the events and dead letters that have a lane, numbered with it."""
    for each in waiting:
        lane = lane_of(each) if isinstance(each, Event | Malformed) else None
        if isinstance(each, Event | Malformed) and lane is not None:
            each.offset = number_of(lane, each.offset)
            if isinstance(each, Event):
                each.lane = lane
            yield each


def _open_backfill(address: str) -> tuple[dict[str, Any], dict[int, str]]:
    """Return the notes on the backfill's last run, and the addresses of the groups' states."""
    try:
        from spark_analytics.backfill.place import PlaceRefused
        from spark_analytics.backfill.resuming import Resumed
        from topology.records.marked import StateUnreadable
    except ImportError:
        raise Refused(
            f"{OPTION} needs pyarrow; install the extra `files` (pip install inorder-engine[files])"
        ) from None
    with refusing(PlaceRefused, StateUnreadable):
        resumed = Resumed(address, reader=OPTION)
        return resumed.known, resumed.states()


def _state_of(address: str | None) -> Any:
    from spark_analytics.backfill.place import file_system
    from spark_analytics.backfill.state import GroupState, unpack
    from topology.records.marked import StateUnreadable

    if address is None:
        return GroupState(None, (), {})
    files, path = file_system(address, OPTION)
    try:
        with files.open_input_stream(path) as file:
            return unpack(file.read())
    except (OSError, StateUnreadable) as wrong:
        raise StateRefused(f"{OPTION}: {address}: {wrong}") from None


def _name_of(place: TopicPartition) -> str:
    return f"{place.topic}/{place.partition}"


def _place(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("/")
    return TopicPartition(topic, int(partition))
