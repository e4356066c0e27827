"""`inorder worker --from-backfill DIR`: a live worker that begins where a backfill ended.

DIR is the `--out` of a backfill that ran with `--no-to-end`. Its `_state` holds where each group of
streams stood; a worker's state is cut by partition, so the groups are dealt to the partitions that
their streams lie in. From an archive it is known where records of a stream lie, and with which
offset the log goes on. Files say nothing of that: the topic is read from its beginning, and a
stream lies where its key leads.

The worker puts all of a partition into one state, so the whole chain has to be one stage. What does
not fit is refused, with the remedy.

Proved by: tests/cli/test_from_backfill.py, tests/end_to_end/test_history.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from aiokafka.structs import TopicPartition

from agents.kafka.stage_topics import works
from agents.stage.arrangement import Arrangement
from agents.stage.history import History
from agents.stage.outlet import partition_of
from agents.state.changelog import StateRefused
from cli.spark.backfill.setting import digest, setting_of
from cli.topology_file import Refused
from topology.config import Topology
from topology.flow.replay import Saved, groups
from topology.model.event import Event
from topology.model.outcome import Malformed

OPTION: Final = "--from-backfill"

from_backfill_option = click.option(
    OPTION,
    "backfill",
    envvar="INORDER_FROM_BACKFILL",
    metavar="DIR",
    help="Begin where this backfill (of --no-to-end) has ended.",
)


class Backfilled:
    """The histories of a topology that a backfill has left. Refused if they are not those of this
    topology, or of no use to a worker."""

    def __init__(self, address: str, topology: Topology, topology_path: str) -> None:
        self._topology = topology
        self._known, self._states = _opened(address)
        self._refuse_split()
        about = digest(setting_of(topology_path, topology))
        if self._known["topology"] != about:
            raise Refused(
                f"{OPTION} {address}: was written with another topology file (or other functions)"
                f" than {topology_path}; start the worker with that one, or backfill anew"
            )
        self._offsets: Mapping[str, int] = self._known["offsets"]
        self._is_archive = bool(self._offsets)
        last_ns = self._known["begin"][1]
        self._now_ns: int = 0 if last_ns is None else last_ns
        self.name = f"{about[:16]}/{self._known['run']}/{self._known['begin'][0]}"

    def of(self, arrangement: Arrangement, source: TopicPartition) -> History:
        """See `agents.stage.history`."""
        saved: list[Saved] = []
        waiting: list[Event | Malformed] = []
        for number, streams in enumerate(groups(self._topology)):
            if self._place(streams, arrangement) != _place(source.topic, source.partition):
                continue
            state = _state_of(self._states.get(number))
            if state.saved is not None:
                self._refuse_words_of_files(state.saved)
            if state.saved is not None and state.saved.now_ns is not None:
                saved.append(state.saved)
            waiting += [each for each in state.waiting if isinstance(each, Event | Malformed)]
        next_offset = 0
        if self._is_archive:
            next_offset = self._offsets.get(_place(source.topic, source.partition), -1) + 1
        return History(saved, waiting, next_offset, self._now_ns)

    def _place(self, streams: Sequence[str], arrangement: Arrangement) -> str:
        """The one partition in which all these lie. StateRefused if there are several."""
        places = sorted({each for name in streams for each in self._places_of(name, arrangement)})
        if not places:  # nothing of them has ever come: they begin as anybody
            return ""
        if len(places) > 1:
            raise StateRefused(
                f"{OPTION}: {', '.join(streams)} lie in {', '.join(places)}, and a state of a"
                " worker is that of one partition; a history can be gone on with where each stream"
                " (and those joined with it) lies in one"
            )
        return places[0]

    def _places_of(self, stream: str, arrangement: Arrangement) -> Sequence[str]:
        if self._is_archive:
            lies: Mapping[str, Sequence[str]] = self._known["places"]
            return lies.get(stream, ())
        topic = self._topology.streams[stream].input
        name = self._topology.partition_name_of(stream)
        return [_place(topic, partition_of(name, arrangement.partitions[topic]))]

    def _refuse_split(self) -> None:
        working = [each.name for each in self._topology.stages if works(self._topology, each)]
        if len(working) > 1:
            whole = "+".join(self._topology.operators)
            raise Refused(
                f"{OPTION}: the chain is cut into the stages {', '.join(working)}, and a history is"
                f" the state of one that holds all; write `stages: [{whole}]` (each stream has to"
                " lie in one partition of its input) and backfill with that file"
            )

    def _refuse_words_of_files(self, saved: Saved) -> None:
        if saved.words and not self._is_archive:
            raise StateRefused(
                f"{OPTION}: the backfill heard words about clocks in files, which"
                f" {self._topology.topics.clock} does not hold; backfill from an archive of the"
                " topics, or from files without them"
            )


def _opened(address: str) -> tuple[dict[str, Any], dict[int, str]]:
    """What is known of the last run, and the addresses of the states."""
    try:
        from spark_analytics.backfill.place import PlaceRefused
        from spark_analytics.backfill.resuming import Resumed
    except ImportError:
        raise Refused(
            f"{OPTION} needs pyarrow; install the extra `files` (pip install inorder-engine[files])"
        ) from None
    try:
        resumed = Resumed(address, who=OPTION, option=OPTION, undoes=False)
        return resumed.known, resumed.states()
    except PlaceRefused as refused:
        raise Refused(str(refused)) from None


def _state_of(address: str | None) -> Any:
    from spark_analytics.backfill.place import file_system
    from spark_analytics.backfill.state import GroupState, StateUnreadable, unpacked

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
