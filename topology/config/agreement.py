"""Checks that the sections of the topology file fit together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from topology.answer.settings import BOUNDS, THESIS3, WithKey
from topology.config.chains import chain_faults
from topology.config.file import TopologyFile
from topology.config.stages import MERGE
from topology.queries.join.settings import JoinQuery
from topology.queries.window.settings import SLIDING, TUMBLING, WindowQuery
from topology.spelling.problem import Fault, suggest
from topology.spelling.values import TOPIC_NAME


def header_faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield a fault for each stream whose headers differ from those of a stream on the same topic.

    The topic is the input, or the sequenced topic if reorder and merge are separate stages. Only
    the headers show to which stream a record belongs, so streams on one topic must agree on them.
    """
    first_of: dict[str, str] = {}
    groups = topology.topics_read_together if topology.fused else []
    for name, stream in topology.streams.items():
        shared = stream.input if topology.fused else topology.topics.sequenced
        at = next((topics[0] for topics in groups if shared in topics), shared)
        first = first_of.setdefault(at, name)
        other = topology.streams[first]
        if stream.headers.contract() != other.headers.contract():
            where = f"both use `{shared}`" if at == shared else "one task reads both"
            message = f"differ from those of stream `{first}`, but {where}"
            remedy = f"write the same headers as for `{first}`"
            apart = not topology.fused and stream.input != other.input
            fuse = ", or fuse reorder and merge: leave `stages` out" if apart else ""
            yield Fault(("streams", name, "headers"), message, remedy + fuse)


def reading_faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield a fault for each stream whose mapping or format differs from others on its input topic.

    Mapping and format belong to the topic. If several streams share it, the mapping must include
    the field `stream`.
    """
    first_of: dict[str, str] = {}
    for name, stream in topology.streams.items():
        first = first_of.setdefault(stream.input, name)
        if stream.reading() != topology.streams[first].reading():
            message = f"reads `{stream.input}` with another mapping or format than stream `{first}`"
            remedy = (
                f"write the same as for `{first}`: fields, format, schema, key_format, ts_unit,"
                " ts_zone, ts_format, decimal"
            )
            yield Fault(("streams", name, "fields"), message, remedy)
        mapping = stream.mapping()
        if mapping is not None and mapping.stream is None and first != name:
            message = f"shares `{stream.input}` with `{first}`, but no field names the stream"
            yield Fault(("streams", name, "fields"), message, "write stream: payload.NAME for both")


def topic_faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield a fault for each topic with two purposes; streams may share an input, or an output."""
    taken = {stream.input: f"the input of stream `{n}`" for n, stream in topology.streams.items()}
    for key, topic in topology.topics:
        if isinstance(topic, str):
            yield from _taken_faults(("topics", key), topic, taken, "give it another name")
            taken.setdefault(topic, f"`topics.{key}` already")
    for name, stream in topology.streams.items():
        path = ("streams", name, "output")
        yield from _taken_faults(path, stream.output, taken, "write to another topic")
    for name, stream in topology.streams.items():
        taken.setdefault(stream.output, f"the output of stream `{name}` already")
    for name, topic in topology.result_tables.items():
        remedy = "give the query another name"
        if not re.fullmatch(TOPIC_NAME, topic):
            message = f"`{topic}` is not a name that Kafka accepts for a topic"
            yield Fault(("queries", name), message, f"{remedy}, of A-Z a-z 0-9 . _ -")
        else:
            yield from _taken_faults(("queries", name), topic, taken, remedy)


def _taken_faults(
    path: tuple[str, ...], topic: str, taken: Mapping[str, str], remedy: str
) -> Iterator[Fault]:
    if topic in taken:
        yield Fault(path, f"`{topic}` is {taken[topic]}", remedy)


def timing_faults(topology: TopologyFile) -> Iterator[Fault]:
    if topology.checkpoint_ns >= topology.transaction_timeout_ns:
        message = "is not below transaction_timeout: each transaction would be aborted"
        yield Fault(("checkpoint",), message, "lower it, or raise transaction_timeout")


def lateness_faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield a fault for each allowance of a query or stream that exceeds the file's `correct_for`.

    Missing events are given up after `correct_for`, so a longer allowance is useless.
    """
    for name, query in topology.queries_of(WithKey).items():
        if query.correct_for_ns is not None and query.correct_for_ns > topology.correct_for_ns:
            message = "is longer than the file's correct_for"
            yield Fault(("queries", name, "correct_for"), message, "lower it, or raise the file's")
    for name in topology.streams:
        if topology.new_source_allowance_ns(name) > topology.correct_for_ns:
            message = "is longer than the file's correct_for, after which results are final"
            path = ("streams", name, "merge", "new_source_allowance")
            yield Fault(path, message, "lower it, or raise the file's correct_for")


def window_faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield a fault for each window that is too short for the possible errors of the clocks.

    No event would certainly belong to such a window.
    """
    for stream, config in topology.streams.items():
        least_ns = 2 * config.clock.max_error_ns
        unnamed = None if len(topology.streams) == 1 else stream
        for name, query in topology.queries_of(WindowQuery).items():
            window = query.window
            if window.kind not in (TUMBLING, SLIDING) or query.stream not in (stream, unnamed):
                continue
            if query.uncertainty in (THESIS3, BOUNDS) and window.size_ns <= least_ns:
                message = f"no event certainly belongs to a window of at most {least_ns} ns"
                remedy = "write one longer than twice `clock.max_error`, or uncertainty: plain"
                yield Fault(("queries", name, "window"), message, remedy)


def join_faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield a fault for each join whose streams are not in one output."""
    for name, query in topology.queries_of(JoinQuery).items():
        streams = sorted({side.stream for side in query.sides.values() if side.stream})
        known = [topology.streams[stream] for stream in streams if stream in topology.streams]
        if len({stream.output for stream in known}) > 1 and not topology.is_speculative(query):
            message = f"joins {' and '.join(streams)}, which have different outputs"
            yield Fault(("queries", name), message, "write one `output` for them")


def accepted_faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield a fault for each stage without the merge that has queries on accepted events."""
    merging = next(each.name for each in topology.stages if MERGE in each.operators)
    for kind in topology.speculative_kinds:
        for stage in topology.stages:
            if kind in stage.operators and MERGE not in stage.operators:
                message = (
                    f"`answer: speculate` reads what merge accepts, but `{stage.name}` has no merge"
                )
                yield Fault(("stages",), message, f"join them: {merging}+{kind}")


def query_faults(topology: TopologyFile) -> Iterator[Fault]:
    streams = [*topology.streams]
    for name, query in topology.queries.items():
        sides = query.aliases if isinstance(query, JoinQuery) else []
        at: tuple[str, ...] = ("queries", name)
        paths = [(*at, "sides", alias) for alias in sides] or [at]
        for path, stream in zip(paths, query.streams, strict=True):
            if not stream and len(streams) > 1:
                remedy = f"write stream: {streams[0]}"
                yield Fault(path, "does not say which stream it reads", remedy)
            elif stream and stream not in streams:
                message = f"there is no stream `{stream}`"
                yield Fault((*path, "stream"), message, suggest(stream, streams))


CHECKS: Final = (
    header_faults, reading_faults, topic_faults, timing_faults, query_faults, lateness_faults,
    window_faults, join_faults, accepted_faults, chain_faults,
)  # fmt: skip


def faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield the faults of sections that are each valid but do not fit together."""
    for check in CHECKS:
        yield from check(topology)
