"""Determines which input partitions one task reads together.

A *task* runs the operators of a stage over a group of input partitions. A stage with both REORDER
and MERGE needs all partitions in which a stream may have records. So it needs those of all streams
that a query joins. If a stream is in one partition of its input (`keyed_by: stream`), each
partition can be a group by itself. The groups follow from the file, and not from the current
state of the brokers. All workers of an application must agree on them, even after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.config.file import TopologyFile


def topics_read_together(topology: TopologyFile) -> Iterator[list[str]]:
    """Yield the input topics of each group that has all partitions of its topics.

    A topic that is in none is read by a task for each of its partitions.
    """
    groups: list[tuple[set[str], set[str]]] = []
    """The topics and the streams of each group."""
    for name, stream in topology.streams.items():
        tied = topology.partition_name_of(name)
        topics, names = {stream.input}, {tied}
        for other in [each for each in groups if each[0] & topics or each[1] & names]:
            groups.remove(other)
            topics |= other[0]
            names |= other[1]
        groups.append((topics, names))
    for topics, tied_names in groups:
        streams = [each for each in topology.streams.values() if each.input in topics]
        is_joined = len(tied_names) < len(streams)
        if is_joined or any(each.keyed_by == "source" for each in streams):
            yield sorted(topics)
