"""Process one group of streams from batch to batch, with the results of a replay of the same log.

When a batch has been read, the lines that no later line can precede go through the operators. The
operators run up to the time to which the log is complete (`spark_analytics.live.partitions`). So
the results do not depend on how Spark cuts the log into batches.
"""

from __future__ import annotations

import marshal
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from spark_analytics.backfill.kinds import TABLE_OF
from spark_analytics.backfill.parcels import Groups
from spark_analytics.live.line_tables import OVERTAKEN
from spark_analytics.live.partitions import (
    HIDDEN,
    MOST_HIDDEN,
    Partition,
    PartitionLines,
    PartitionName,
    Partitions,
    Waiting,
)
from spark_analytics.live.state import Common, Held, SavedGroup, changes_of, snapshot
from topology.base.outcome import Step
from topology.base.sample import Declared, Sample
from topology.config import Topology
from topology.records.json_lines import JsonObject, make_step_lines
from topology.records.line_reader import Content
from topology.records.packed import DEAD, DECLARED, EVENT, unpack_content
from topology.stage.batches import batches
from topology.stage.instants import whole_instants
from topology.stage.replay import Replay

MAX_WAITING: Final = 1_000_000


class TooManyWait(Exception):
    """The error of too many lines that wait for one partition; the message says what to do."""


class PartitionParcel(NamedTuple):
    """A parcel of the reading tasks.

    If `number` is 0, the content describes a stretch; otherwise it is lines of the stretch. A
    parcel of the partition HIDDEN has no content.
    """

    name: PartitionName
    first: int
    number: int
    content: bytes


class OutputLine(NamedTuple):
    """An output line and its position among the lines of its stream and table."""

    table: str
    position: int
    line: JsonObject


class LiveGroup:
    """A group's operators and waiting lines.

    `names` are all partitions that are read. `saved_group` is the state to continue from; with None
    the group starts from the beginning.
    """

    def __init__(
        self,
        topology: Topology,
        group: int,
        names: Iterable[PartitionName],
        saved_group: SavedGroup | None = None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        groups = Groups(topology)
        self._topology = topology
        self._max_waiting = max_waiting
        streams = topology.streams.values()
        self._activation_ns = min(stream.clock.activation_ns for stream in streams)
        # The group for unknown streams has no streams itself, so its replay gets all streams.
        streams_here = groups.streams[group] or list(topology.streams)
        self._reads_reports = group != groups.strange
        self._replay = Replay(topology, streams_here, reads_reports=self._reads_reports)
        self._held: Held = {}
        self._new_words: list[Sample | Declared] = []
        self._common = Common(Partitions({}))
        if saved_group is not None:
            self._common, self._held = saved_group.common, saved_group.held
            saved = saved_group.save()
            if saved is not None:
                self._replay.restore(saved)
        for name in names:
            self._common.partitions.partitions.setdefault(name, Partition())

    def take(self, taken: Sequence[PartitionParcel], quiet_ns: int) -> list[OutputLine]:
        """Return the output of a batch.

        Partitions without offsets in the batch had no unread records at `quiet_ns`.

        Raises:
            TooManyWait: More lines wait than the bound allows.
        """
        partitions, waiting = self._common.partitions, self._common.waiting
        output: list[OutputLine] = []
        for parcel in sorted(taken, key=attrgetter("name", "first", "number")):
            name = parcel.name
            if name == HIDDEN:
                partitions.record_hidden()
                continue
            if not parcel.number:
                stretch = PartitionLines(name, parcel.first, *marshal.loads(parcel.content))
                begin_ns, received = partitions.begin_of(name), partitions.count_received(name)
                is_late = (
                    begin_ns > partitions.partitions[name].clock_ns
                )  # The operators have run beyond the start of the stretch.
                partitions.add(stretch)
                continue
            for packed in marshal.loads(parcel.content):
                later_ns = self._activation_ns if packed[0] == DECLARED else 0
                arrival_ns = max(packed[2], begin_ns + later_ns)
                if is_late and packed[2] < begin_ns + later_ns:
                    output.append(self._output(OVERTAKEN, overtaken_line(packed, begin_ns)))
                waiting.append(Waiting(arrival_ns, name, received + packed[1] - 1, packed))
        waiting.sort(key=_sort_key)
        output += self._advance(partitions.time_ns(quiet_ns))
        if len(waiting) > self._max_waiting:
            raise TooManyWait(self._explain_overload())
        return output

    def rest(self, quiet_ns: int) -> list[OutputLine]:
        """Return the output due at `quiet_ns`, given that no partition has earlier records."""
        return self._advance(self._common.partitions.time_ns(quiet_ns))

    def due_ns(self) -> int | None:
        """Return the earliest time at which `rest` has output, or None if it has none."""
        due_ns = self._replay.next_deadline_ns()
        if self._common.waiting:
            waits_ns = self._common.waiting[0].arrival_ns
            return waits_ns if due_ns is None else min(due_ns, waits_ns)
        return due_ns

    def snapshot(self) -> bytes:
        """Return the whole state as bytes, from which `folded` restores it."""
        content, self._held = snapshot(self._replay, self._common)
        self._new_words = []
        return content

    def take_changes(self) -> bytes:
        """Return the changes since the last call of this method or of `snapshot`."""
        content, self._held = changes_of(self._replay, self._held, self._new_words, self._common)
        self._new_words = []
        return content

    def _advance(self, time_ns: int) -> list[OutputLine]:
        partitions, waiting = self._common.partitions, self._common.waiting
        if time_ns <= partitions.advanced_ns:
            return []
        until = bisect_left(waiting, time_ns, key=attrgetter("arrival_ns"))
        numbered = partitions.number(waiting[:until])
        contents = [unpack_content(line.packed, line.arrival_ns, at) for line, at in numbered]
        del waiting[:until]
        words = [each for each in contents if isinstance(each, Sample | Declared)]
        if self._reads_reports:
            self._new_words += words
        partitions.release(time_ns, len(words))
        output = []
        for step in whole_instants(self._steps(contents, time_ns), self._topology):
            output += [self._output(TABLE_OF[line["kind"]], line) for line in make_step_lines(step)]
        return output

    def _steps(self, contents: Iterable[Content], time_ns: int) -> Iterator[Step]:
        for inputs, until_ns in batches(contents):
            step = self._replay.on_inputs(inputs, time_ns if until_ns is None else until_ns)
            if step is not None:
                yield step
        yield self._replay.on_other_input(time_ns)

    def _output(self, table: str, line: JsonObject) -> OutputLine:
        positions = self._common.positions
        at = (line["stream"], table)
        position = positions.get(at, 0)
        positions[at] = position + 1
        return OutputLine(table, position, line)

    def _explain_overload(self) -> str:
        partitions = self._common.partitions.partitions
        name = min(partitions, key=lambda each: partitions[each].promised_ns)
        waits = f"{len(self._common.waiting):,} lines wait for {name.topic}/{name.partition}, which"
        batches = len(partitions[name].hidden)
        if not batches:
            return (
                f"{waits} is read more slowly than the other partitions; raise --max-waiting, and"
                " the memory"
            )
        return (
            f"{waits} had no record in the last {batches} batches, in which some partition had"
            f" only transaction markers; after {MOST_HIDDEN} such batches the lines are released:"
            f" raise --max-waiting to {MOST_HIDDEN} times --max-per-batch, or lower --max-per-batch"
        )


def overtaken_line(packed: tuple[Any, ...], taken_ns: int) -> JsonObject:
    """Return the line of the table `overtaken` for a record that arrived before `taken_ns`.

    The operators had already run up to that time.
    """
    line: JsonObject = {"kind": "overtaken", "stream": None, "source": None, "seq": None}
    if packed[0] == EVENT:
        line |= {"stream": packed[4], "source": packed[5], "seq": packed[7]}
    elif packed[0] != DEAD:
        line["source"] = packed[4]
    return {**line, "arrival": packed[2], "at": taken_ns}


def _sort_key(line: Waiting) -> tuple[int, PartitionName, int]:
    return line.arrival_ns, line.name, line.place
