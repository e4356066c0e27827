"""How each operator is made from the topology file: one function for each.

An operator that a file need not have is imported where it is made: all of them together took a
quarter of a start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from topology.answer.quality import Answering, Quality
from topology.answer.rules import FINAL
from topology.clock.drift_table import DriftTable
from topology.clock.operator import Clock
from topology.config import QueryConfig, SpeculateConfig, StreamConfig, Topology
from topology.config.chains import (
    corrects_for_ns,
    lag_of,
    patterns_read,
    read_by,
    readings_of,
    reads_stream,
)
from topology.config.stages import JOIN, PATTERN, WINDOW
from topology.merge.operator import Merge
from topology.model.operator import Operator
from topology.query.fields import path_of
from topology.query.queries import Queries
from topology.reorder.by_time import ReorderByTime
from topology.reorder.mixed import MixedReorder
from topology.reorder.operator import Reorder

if TYPE_CHECKING:
    from topology.detector.config import DetectorConfig
    from topology.join.config import JoinConfig
    from topology.pattern.run.engine import Engine
    from topology.pattern.tree.syntax import Query
    from topology.window.config import WindowConfig


class Site(NamedTuple):
    """The place of an operator. `streams`: the one whose chain it is in, or those that meet
    there. `place`: the bit with which it marks the events it holds. `table`: what is heard about
    the clocks of sources. `is_accepted`: it reads what MERGE accepts."""

    topology: Topology
    streams: Sequence[str]
    place: int
    table: DriftTable | None = None
    is_accepted: bool = False

    @property
    def stream(self) -> str:
        return self.streams[0]

    @property
    def config(self) -> StreamConfig:
        return self.topology.streams[self.stream]

    def asked(self, kind: str) -> dict[str, QueryConfig]:
        """Return the queries of a kind that read this input of these streams, by name."""
        topology = self.topology
        return {
            name: query
            for name, query in topology.queries.items()
            if query.kind == kind
            and topology.read_by(query) <= {*self.streams}
            and topology.reads_accepted(query) == self.is_accepted
        }


def reorder(site: Site) -> Operator:
    """Each source in order: by its numbers, or by its own time."""
    config = site.config.reorder
    if config.is_mixed:
        return MixedReorder(_by_number(site), _by_time(site))
    return _by_number(site) if config.numbered else _by_time(site)


def _by_time(site: Site) -> ReorderByTime:
    """A stamp far ahead makes dead, as in CLOCK, where sources are taken at their word."""
    config = site.config
    trusted = config.clock.unsynced == "trust"
    max_ahead_ns = config.clock.max_ahead_ns if trusted else None
    strategy = None
    if config.experimental.reorder == "mp":
        from topology.published.mp_k_slack import MPKSlack

        max_k_ns = config.reorder.max_wait_ns
        strategy = partial(MPKSlack, measure="arrival", max_k_ns=max_k_ns, idle_ns=0)
    return ReorderByTime(site.stream, config.reorder, strategy, site.place, max_ahead_ns)


def _by_number(site: Site) -> Reorder:
    config = site.config
    methods = config.experimental
    if methods.reorder is None:
        return Reorder(site.stream, config.reorder, site.place)
    from topology.published.reorder import PacedReorder

    return PacedReorder(
        site.stream,
        config.reorder,
        site.place,
        is_rfc=methods.reorder == "rfc",
    )


def clock(site: Site) -> Operator:
    reorder = site.config.reorder
    made = Clock
    if site.config.experimental.clock is not None:
        from topology.published.clock import RoundTripClock

        made = RoundTripClock
    return made(
        site.config.clock,
        reorder.max_sources,
        site.table,
        forget_after_ns=reorder.forget_after_ns,
    )


def merge(site: Site) -> Operator:
    topology, config = site.topology, site.config
    made = Merge
    if config.experimental.merge is not None:
        from topology.published.merge import PacedMerge

        made = PacedMerge
    return made(
        site.stream,
        config.merge,
        late=config.reorder.late,
        position=site.place,
        max_sources=config.reorder.max_sources,
        forget_after_ns=config.reorder.forget_after_ns,
        heartbeat_ns=topology.heartbeat_ns if topology.watermark else 0,
        correct_for_ns=topology.correct_for_ns,
        numbered=config.reorder.numbered,
        mixed=config.reorder.is_mixed,
    )


def windows(site: Site) -> Operator | None:
    from topology.window.operator import Windows

    topology, stream = site.topology, site.stream
    configs = [
        window_config(topology, stream, name, query) for name, query in site.asked(WINDOW).items()
    ]
    if not configs:
        return None
    own = topology.user_functions.aggregates
    return Queries([Windows(stream, each, functions=own, **_beginning(site)) for each in configs])


def window_config(topology: Topology, stream: str, name: str, query: QueryConfig) -> WindowConfig:
    """`query` is one with a window."""
    from topology.window.config import PLAIN, TUMBLING, Output, WindowConfig

    assert query.window is not None
    config, (kind, size_ns, every_ns, events) = topology.streams[stream], query.window
    return WindowConfig(
        query=name,
        kind=kind,
        outputs=tuple(
            Output(output, each.function, path_of(each.path), each.quantile_ppm)
            for output, each in (query.aggregate or {}).items()
        ),
        size_ns=size_ns,
        every_ns=size_ns if kind == TUMBLING else every_ns,
        events=events,
        key=_path(query.key),
        uncertainty=query.uncertainty or PLAIN,
        early_ns=0 if query.answer == FINAL else query.early_ns,
        max_error_ns=config.clock.max_error_ns,
        play=config.clock.play,
        max_windows=query.max_windows,
        functions_digest=functions_digest(topology, query),
        **_answering(topology, query, [stream]),
    )


def pattern(site: Site) -> Operator | None:
    topology, stream, config = site.topology, site.stream, site.config
    queries = site.asked(PATTERN)
    if not queries:
        return None
    from topology.pattern.operator import Pattern

    qualities = {
        name: quality
        for name, query in queries.items()
        if query.answer != FINAL and (quality := quality_of(query, [config])) is not None
    }
    return Pattern(
        _engine_of(topology, stream, queries),
        topology.correct_for_ns,
        site.place,
        new_source_allowance_ns=topology.new_source_allowance_ns(stream),
        qualities=qualities,
        play=config.clock.play,
        only_final=[name for name, query in queries.items() if query.answer == FINAL],
        **_beginning(site),
    )


def _engine_of(topology: Topology, stream: str, queries: Mapping[str, QueryConfig]) -> Engine:
    """`queries` are patterns."""
    from topology.pattern.compile.scope import Environment
    from topology.pattern.run.chained import engine_class
    from topology.pattern.run.compiled import Compiled

    environment = Environment.of(topology.user_functions)
    compiled, emits_final = [], []
    for name, query in queries.items():
        assert query.pattern is not None
        compiled.append(Compiled(replace(query.pattern, name=name), environment))
        if Answering(answer=query.answer, finals=query.finals).emits_finals:
            emits_final.append(name)
    return engine_class(compiled)(compiled, stream, emits_final=emits_final)


def joins(site: Site) -> Operator | None:
    """All whose streams meet here."""
    from topology.join.operator import Join
    from topology.join.queries import JoinQueries

    found = [
        Join(join_config(site.topology, name, query), **_beginning(site))
        for name, query in site.asked(JOIN).items()
    ]
    return JoinQueries(found, site.place) if found else None


def join_config(topology: Topology, name: str, query: QueryConfig) -> JoinConfig:
    """`query` is one with a join."""
    from topology.join.config import Field, JoinConfig, Side

    assert query.join is not None
    assert query.sides is not None
    only = next(iter(topology.streams))
    sides = tuple(
        Side(alias, side.stream or only, side.type or "", _path(side.key or query.key))
        for alias, side in query.sides.items()
    )
    aliases = list(query.sides)
    values = query.values or {}
    streams = [side.stream for side in sides]
    return JoinConfig(
        query=name,
        sides=sides,
        fields=tuple(
            Field(value_name, aliases.index(value.side), path_of(value.path))
            for value_name, value in values.items()
        ),
        **query.join._asdict(),
        outer=query.outer or "inner",
        uncertainty=query.uncertainty or "expected",
        max_events=query.max_events,
        max_rows=query.max_rows,
        plays=tuple(topology.streams[stream].clock.play for stream in streams),
        **_answering(topology, query, streams),
    )


def detectors(site: Site) -> Operator | None:
    """They read ordered events, or, if one of them runs ahead, all read accepted ones."""
    from topology.detector.detector import behaviour_of
    from topology.detector.operator import Detecting
    from topology.detector.queries import DetectorQueries

    topology, stream = site.topology, site.stream
    is_ahead = topology.detectors_run_ahead
    own = topology.user_functions.detectors
    found = [
        Detecting(
            stream,
            detector_config(topology, stream, name, query, is_ahead=is_ahead),
            behaviour_of(own[query.detector]),
        )
        for name, query in topology.queries_of(stream).items()
        if query.detector is not None
    ]
    if not found:
        return None
    return DetectorQueries(found, site.place)


def detector_config(
    topology: Topology, stream: str, name: str, query: QueryConfig, *, is_ahead: bool
) -> DetectorConfig:
    """`query` is one with a detector."""
    from topology.detector.config import DetectorConfig

    assert query.detector is not None
    read = read_by(topology, query)
    return DetectorConfig(
        query=name,
        detector=query.detector,
        key=_path(query.key),
        granted_ppm=(query.speculate or SpeculateConfig()).share_ppm,
        max_ahead_ns=topology.streams[stream].clock.max_ahead_ns,
        max_events=query.max_events,
        max_keys=query.max_keys,
        is_ahead=is_ahead,
        reads=readings_of(topology, query),
        reads_stream=reads_stream(topology, query),
        lag_ns=lag_of(topology, query),
        below=tuple(_meaning(topology, stream, each) for each in read),
        functions_digest=functions_digest(topology, query),
        **_answering(topology, query, [stream]),
    )


def functions_digest(topology: Topology, query: QueryConfig, *patterns: Query) -> str:
    """Return a digest of the texts of all functions by which the query, and what it reads, is
    computed; empty where they have none. `patterns`: those that it reads by INTO."""
    own, waiting, read = topology.user_functions, [query], [*patterns]
    if not own.texts:
        return ""
    names: dict[str, set[str]] = {"aggregates": set(), "functions": set(), "detectors": set()}
    while waiting:  # It ends, as no query reads itself.
        each = waiting.pop()
        for name in read_by(topology, each):
            waiting.append(topology.queries[name])
            read += patterns_read(topology, name)
        read += [each.pattern] if each.pattern is not None else []
        names["aggregates"] |= {one.function for one in (each.aggregate or {}).values()}
        names["detectors"] |= {each.detector} if each.detector is not None else set()
    from topology.pattern.tree.mentions import called

    names["functions"] = {name for pattern in read for name in called(pattern)}
    return own.state_digest(names)


def _meaning(topology: Topology, stream: str, name: str) -> bytes:
    """Equal for queries whose results are the same."""
    query = topology.queries[name]
    if query.detector is not None:
        return detector_config(topology, stream, name, query, is_ahead=False).fingerprint
    if query.pattern is not None:
        # The grammar costs much to import, and most files have no pattern that is read.
        from topology.pattern.language.unparse import unparse

        return unparse(query.pattern).encode()
    return repr((query.window, query.aggregate, query.key, query.uncertainty)).encode()


def _path(key: str | None) -> tuple[str, ...] | None:
    return None if key is None else path_of(tuple(key.split(".")))


def _answering(topology: Topology, query: QueryConfig, streams: Sequence[str]) -> dict[str, Any]:
    """The fields of `Answering`. `streams`: those that the query reads."""
    return {
        "answer": query.answer,
        "finals": query.finals,
        "correct_for_ns": corrects_for_ns(topology, query),
        "new_source_allowance_ns": max(
            topology.new_source_allowance_ns(stream) for stream in streams
        ),
        "quality": quality_of(query, [topology.streams[stream] for stream in streams]),
    }


def _beginning(site: Site) -> dict[str, Any]:
    """Return what a query that begins amid its streams has to know of them."""
    topology = site.topology
    return {
        "ordered": not site.is_accepted,
        "announced": topology.watermark,
        "max_ahead_ns": max(topology.streams[each].clock.max_ahead_ns for each in site.streams),
    }


def quality_of(query: QueryConfig, streams: Sequence[StreamConfig]) -> Quality | None:
    """`streams`: those that the query reads."""
    config, method = query.quality, query.experimental.quality
    if config is None:
        return None
    published = None
    if method is not None:
        from topology.published import waits

        published = waits.QUALITY[method]
    return Quality(
        config.accuracy_ppm,
        config.max_wait_ns,
        method,
        max(stream.merge.idle_after_ns for stream in streams),
        max(stream.reorder.max_sources for stream in streams),
        published,
    )
