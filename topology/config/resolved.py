"""Fills in the settings of a stream or a query that follow from other sections.

A topology stays as the user wrote it. Operators are built from the copies that are made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inorder.contract import UNIT_NS
from topology.answer.settings import WithTarget
from topology.config.chains import allowed_lateness_ns
from topology.config.file import Q
from topology.config.stream import StreamConfig
from topology.order.clock.settings import ClockConfig
from topology.queries.join.settings import JoinQuery
from topology.records.time_forms import make_time_form

if TYPE_CHECKING:
    from topology.config.topology import Topology


def resolve_stream(topology: Topology, name: str) -> StreamConfig:
    """Return a stream of the topology with the settings of CLOCK and MERGE filled in."""
    stream = topology.streams[name]
    of_merge = {
        "reorder": stream.reorder,
        "max_set_back_ns": stream.clock.max_set_back_ns,
        "heartbeat_ns": topology.heartbeat_ns if topology.watermark else 0,
        "correct_for_ns": topology.correct_for_ns,
    }
    merge = stream.merge.model_copy(update=of_merge)
    return stream.model_copy(update={"clock": _resolve_clock(stream), "merge": merge})


def _resolve_clock(stream: StreamConfig) -> ClockConfig:
    of_clock: dict[str, Any] = {
        "max_sources": stream.reorder.max_sources,
        "forget_after_ns": stream.reorder.forget_after_ns,
        "unsynced": stream.unsynced,
    }
    unit_ns = UNIT_NS[stream.ts_unit or stream.headers.ts_unit]
    if stream.ts_format is not None:
        unit_ns = make_time_form(stream.ts_format).granularity_ns
    if stream.clock.granularity_ns is None and unit_ns > 1:
        of_clock["granularity_ns"] = unit_ns
    return stream.clock.model_copy(update=of_clock)


def resolve_query(topology: Topology, name: str, query: Q) -> Q:
    """Return the named query with its name, and with the settings of its streams filled in."""
    streams = topology.streams_of(query)
    read = [topology.streams[stream] for stream in streams]
    clocks = tuple(map(_resolve_clock, read))
    found: dict[str, Any] = {
        "name": name,
        "new_source_allowance_ns": max(map(topology.new_source_allowance_ns, streams)),
        "changes_for_ns": allowed_lateness_ns(topology, query),
    }
    if isinstance(query, JoinQuery):
        sides = zip(query.sides.items(), streams, strict=True)
        found["clocks"] = clocks
        found["sides"] = {
            alias: side.model_copy(update={"stream": stream}) for (alias, side), stream in sides
        }
    else:
        found |= {"stream": streams[0], "clock": clocks[0]}
    if isinstance(query, WithTarget) and query.quality is not None:
        of_streams = {
            "idle_ns": max(stream.merge.idle_after_ns for stream in read),
            "max_sources": max(stream.reorder.max_sources for stream in read),
        }
        found["quality"] = query.quality.model_copy(update=of_streams)
    return query.model_copy(update=found)
