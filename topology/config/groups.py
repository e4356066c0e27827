"""Determines which input partitions one task reads together.

A *task* runs the operators of a stage over a group of input partitions. A stage with both REORDER
and MERGE needs all partitions in which a stream may have records. So it needs those of all streams
that a query joins. If a stream is in one partition of its input (`keyed_by: stream`), each
partition can be a group by itself. The groups follow from the file, and not from the current
state of the brokers. All workers of an application must agree on them, even after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from topology.config.stream import StreamConfig


def iter_topic_groups(
    streams: Mapping[str, StreamConfig], partition_name_of: Callable[[str], str]
) -> Iterator[list[str]]:
    """Yield the input topics of each group that has all partitions of its topics.

    A topic that is in none is read by a task for each of its partitions. `partition_name_of` gives
    the same name for streams that are joined.
    """
    groups: list[tuple[set[str], set[str]]] = []
    """The topics and the streams of each group."""
    for name, stream in streams.items():
        tied = partition_name_of(name)
        topics, names = {stream.input}, {tied}
        for other in [each for each in groups if each[0] & topics or each[1] & names]:
            groups.remove(other)
            topics |= other[0]
            names |= other[1]
        groups.append((topics, names))
    for topics, tied_names in groups:
        come = [each for each in streams.values() if each.input in topics]
        is_joined = len(tied_names) < len(come)
        if is_joined or any(each.keyed_by == "source" for each in come):
            yield sorted(topics)
