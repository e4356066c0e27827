"""Builds the operators of a stage from the topology file, with one function for each kind.

It also computes the digests by which the state of a query is recognised after a restart. Operators
that many topology files do not use are imported where they are built. Importing all of them takes a
quarter of the start-up time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from topology.answer.query.queries import Queries
from topology.answer.query.zone import digest_rules
from topology.answer.settings import WithKey
from topology.base.operator import Operator
from topology.base.payload import Payloads
from topology.config import QueryConfig, StreamConfig, Topology
from topology.config.chains import level_of, patterns_read, queries_read
from topology.config.file import Q
from topology.config.resolved import resolve_query, resolve_stream
from topology.config.stages import DETECTOR
from topology.order.clock.drift_table import DriftTable
from topology.order.clock.operator import Clock
from topology.order.merge.operator import Merge
from topology.order.reorder.by_time import ReorderByTime
from topology.order.reorder.mixed import MixedReorder
from topology.order.reorder.operator import Reorder
from topology.queries.detector.settings import DetectorQuery, Inputs, fingerprint
from topology.queries.join.settings import JoinQuery
from topology.queries.pattern.settings import PatternQuery
from topology.queries.window.settings import WindowQuery

if TYPE_CHECKING:
    from topology.answer.waiting.policy import SlackPolicy
    from topology.queries.pattern.run.engine import Engine
    from topology.queries.pattern.tree.syntax import Query


class Site(NamedTuple):
    """The position of an operator in a stage.

    `streams` is the one stream whose chain contains the operator, or the streams that it joins.
    `table` has the clock reports of all sources. `is_speculative` means that the operator reads the
    events that MERGE accepts. `payloads` are those of the stage's events.
    """

    topology: Topology
    streams: Sequence[str]
    table: DriftTable | None = None
    is_speculative: bool = False
    payloads: Payloads | None = None

    @property
    def stream(self) -> str:
        return self.streams[0]

    @property
    def config(self) -> StreamConfig:
        return resolve_stream(self.topology, self.stream)

    def select_queries(self, kind: type[Q]) -> dict[str, Q]:
        """Return the queries of this kind that read the site's streams and input alone, by name."""
        topology = self.topology
        return {
            name: resolve_query(topology, name, query)
            for name, query in topology.queries_of(kind).items()
            if topology.read_by(query) <= {*self.streams}
            and (query.kind == DETECTOR or topology.is_speculative(query) == self.is_speculative)
        }


def reorder(site: Site) -> Operator:
    """Return the operator that orders each source, by sequence number or by time."""
    config = site.config.reorder
    if config.is_mixed:
        return MixedReorder(_build_by_number(site), by_time(site))
    return _build_by_number(site) if config.numbered else by_time(site)


def by_time(site: Site, policy: Callable[[], SlackPolicy] | None = None) -> ReorderByTime:
    """Return the operator that orders each source by time, with the default policy if None.

    If CLOCK trusts sources without time sync, an event far ahead of its arrival becomes a dead
    letter here, as it would in CLOCK.
    """
    config = site.config
    trusted = config.clock.unsynced == "trust"
    max_ahead_ns = config.clock.max_ahead_ns if trusted else None
    return ReorderByTime(site.stream, config.reorder, policy, max_ahead_ns)


def _build_by_number(site: Site) -> Reorder:
    return Reorder(site.stream, site.config.reorder)


def clock(site: Site) -> Operator:
    return Clock(site.config.clock, site.table)


def build_merge(site: Site) -> Operator:
    return Merge(site.stream, site.config.merge)


def build_windows(site: Site) -> Operator | None:
    from topology.queries.window.operator import Windows

    topology, stream = site.topology, site.stream
    found = [
        Windows(
            stream,
            query,
            functions=topology.user_functions.aggregates,
            functions_digest=functions_digest(topology, query),
            ordered=not site.is_speculative,
            announced=topology.watermark,
            payloads=site.payloads if _uses_built_ins_only(topology, query) else None,
        )
        for query in site.select_queries(WindowQuery).values()
    ]
    return Queries(found) if found else None


def _uses_built_ins_only(topology: Topology, query: WindowQuery) -> bool:
    """Return whether no aggregate is a user's, which might change the values that it gets."""
    own = topology.user_functions.aggregates
    return all(each.function not in own for each in query.aggregate.values())


def pattern(site: Site) -> Operator | None:
    queries = site.select_queries(PatternQuery)
    if not queries:
        return None
    from topology.queries.pattern.operator import Pattern

    return Pattern(
        _engine_of(site.topology, site.stream, queries),
        queries,
        ordered=not site.is_speculative,
        announced=site.topology.watermark,
        # A user's function might change the values that it gets.
        payloads=None if site.topology.user_functions.functions else site.payloads,
    )


def _engine_of(topology: Topology, stream: str, queries: Mapping[str, PatternQuery]) -> Engine:
    """Return the engine of these queries."""
    from topology.queries.pattern.compile.scope import Environment
    from topology.queries.pattern.match.compiled import Compiled
    from topology.queries.pattern.run.engine import Engine

    own = topology.user_functions
    environment = Environment(functions=own.functions, texts=own.texts)
    compiled = [
        Compiled(replace(query.pattern, name=name), environment) for name, query in queries.items()
    ]
    emits_final = [name for name, query in queries.items() if query.emits_finals]
    return Engine(compiled, stream, emits_final=emits_final)


def build_joins(site: Site) -> Operator | None:
    """Return the operator of the joins between the site's streams, or None if there are none."""
    from topology.queries.join.operator import Join
    from topology.queries.join.queries import JoinQueries

    found = [
        Join(
            query,
            ordered=not site.is_speculative,
            announced=site.topology.watermark,
            payloads=site.payloads,
        )
        for query in site.select_queries(JoinQuery).values()
    ]
    return JoinQueries(found) if found else None


def build_detectors(site: Site) -> Operator | None:
    """Return the operator of the stream's detectors, or None.

    Detectors read ordered events. If one of them is speculative, all of them read accepted events.
    """
    from topology.queries.detector.detector import behaviour_of
    from topology.queries.detector.operator import Detecting
    from topology.queries.detector.queries import DetectorQueries

    topology = site.topology
    own = topology.user_functions.detectors
    found = [
        Detecting(
            site.stream,
            query,
            behaviour_of(own[query.detector]),
            inputs_of(topology, query),
            functions_digest=functions_digest(topology, query),
        )
        for query in site.select_queries(DetectorQuery).values()
    ]
    return DetectorQueries(found) if found else None


def inputs_of(topology: Topology, query: DetectorQuery) -> Inputs:
    """Return the inputs of a detector.

    A pattern that ends with a negation is decided only when the time for the negated events has
    passed. So the results of a pattern may lag by up to its span, which is used as the bound for
    every pattern.
    """
    from topology.queries.detector.result_event import UpstreamQuery

    read, lag_ns = queries_read(topology, query), 0
    patterns = {name: each.pattern for name, each in read.items() if isinstance(each, PatternQuery)}
    if patterns:
        from topology.queries.pattern.tree.normal_form import normalise

        lag_ns = max(normalise(each).span_ns for each in patterns.values())
    into = {name: pattern.into or name for name, pattern in patterns.items()}
    return Inputs(
        is_speculative=topology.has_speculative_detectors,
        reads=tuple(
            UpstreamQuery(
                name,
                into.get(name, name),
                level_of(topology, name),
                isinstance(each, WithKey) and each.key is not None,
            )
            for name, each in read.items()
        ),
        reads_stream=query.reads is None or len(read) < len(query.reads),
        lag_ns=lag_ns,
        below=tuple(meaning_of(topology, name) for name in read),
    )


def functions_digest(topology: Topology, query: QueryConfig, *patterns: Query) -> str:
    """Return a digest of what the query and its inputs use from outside the topology file.

    These are the sources of users' functions, and the rules of the time zones of windows. The
    digest is "" if there are none. `patterns` are those that the query reads by INTO.
    """
    own, waiting, read = topology.user_functions, [query], [*patterns]
    zones: set[str] = set()
    names: dict[str, set[str]] = {"aggregates": set(), "functions": set(), "detectors": set()}
    while waiting:  # The loop ends, because no query reads itself.
        each = waiting.pop()
        for name, upstream in queries_read(topology, each).items():
            waiting.append(upstream)
            read += patterns_read(topology, name)
        match each:
            case PatternQuery():
                read.append(each.pattern)
            case WindowQuery():
                names["aggregates"] |= {one.function for one in each.aggregate.values()}
                zones.add(each.window.zone)
            case DetectorQuery():
                names["detectors"].add(each.detector)
    rules = "".join(map(digest_rules, sorted(zones)))
    if not own.texts:
        return rules
    from topology.queries.pattern.tree.mentions import find_called

    names["functions"] = {name for pattern in read for name in find_called(pattern)}
    return own.state_digest(names) + rules


def meaning_of(topology: Topology, name: str) -> bytes:
    """Return bytes that are equal for queries with the same results."""
    query = resolve_query(topology, name, topology.queries[name])
    if isinstance(query, DetectorQuery):
        return fingerprint(query, inputs_of(topology, query))
    if isinstance(query, PatternQuery):
        from topology.queries.pattern.tree.fingerprint import (
            compute_fingerprint as pattern_fingerprint,
        )

        return pattern_fingerprint(query.pattern).encode()
    return query.fingerprint()
