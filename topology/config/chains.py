"""Finds the queries whose results other queries read, and the faults of such chains.

`reads` of a detector names queries, and the stream if the detector also reads its events. A result
of a query is an event for those that read it (`topology.queries.detector.result_event`). The type
of this event is the INTO of a pattern, or else the query's name.

A pattern reads other patterns of its stream by the type that their INTO names
(`topology.queries.pattern.run.level`). A detector may read other detectors. It may also read
windows and patterns that run after the merge in the same stage. Results do not pass between stages
as events: their corrections and the events of the other stage would not meet at a well-defined
instant. No query reads itself, directly or through others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from topology.answer.settings import AnswerSettings, WithKey
from topology.config.file import TopologyFile
from topology.config.query import QueryConfig
from topology.config.stages import DETECTOR, PATTERN, WINDOW
from topology.queries.detector.settings import DetectorQuery
from topology.queries.join.settings import JoinQuery
from topology.queries.pattern.settings import PatternQuery
from topology.spelling.problem import Fault, suggest

if TYPE_CHECKING:
    from topology.queries.pattern.tree.syntax import Query


def queries_read(topology: TopologyFile, query: AnswerSettings) -> dict[str, QueryConfig]:
    """Return the queries that this query reads, by name."""
    reads = (query.reads if isinstance(query, DetectorQuery) else None) or ()
    return {name: topology.queries[name] for name in reads if name in topology.queries}


def level_of(topology: TopologyFile, name: str) -> int:
    """Return the number of detectors in the longest chain that ends at this query.

    The query itself counts if it is a detector. There must be no circle.
    """
    query = topology.queries[name]
    if not isinstance(query, DetectorQuery):
        return 0
    return 1 + max((level_of(topology, each) for each in queries_read(topology, query)), default=0)


def allowed_lateness_ns(topology: TopologyFile, query: AnswerSettings) -> int:
    """Return the query's allowed lateness in ns, at least that of every query that it reads."""
    own_ns = query.correct_for_ns if isinstance(query, WithKey) else None
    own_ns = topology.correct_for_ns if own_ns is None else own_ns
    read = queries_read(topology, query).values()
    return max([own_ns, *(allowed_lateness_ns(topology, each) for each in read)])


def patterns_read(topology: TopologyFile, name: str) -> list[Query]:
    """Return the patterns whose matches the named query reads, directly or indirectly."""
    query = topology.queries[name]
    if not isinstance(query, PatternQuery):
        return []
    from topology.queries.pattern.tree.chained_queries import find_types_read

    patterns = _patterns_of(topology, *topology.streams_of(query))
    types = find_types_read(patterns)
    wanted, found = types[name], dict[str, "Query"]()
    while wanted:
        more = [each for each in patterns if each.into in wanted and each.name not in found]
        found |= {each.name: each for each in more}
        wanted = frozenset(type_ for each in more for type_ in types[each.name])
    return [found[each] for each in sorted(found)]


def _patterns_of(topology: TopologyFile, stream: str) -> list[Query]:
    """Return the patterns of a stream, with the names of their queries."""
    return [
        replace(query.pattern, name=name)
        for name, query in topology.queries_of(PatternQuery).items()
        if topology.streams_of(query) == [stream]
    ]


def chain_faults(topology: TopologyFile) -> Iterator[Fault]:
    for name, query in topology.queries_of(DetectorQuery).items():
        yield from _reading_faults(topology, name, query)
    yield from _circle_faults(topology)
    yield from _place_faults(topology)
    patterns = topology.queries_of(PatternQuery)
    if not patterns:
        return
    # Importing the tree of patterns takes a tenth of the engine's import time, and most files have
    # no pattern.
    from topology.queries.pattern.tree.chained_queries import find_chain_errors

    for name, pattern in patterns.items():
        for read in patterns_read(topology, name):
            other = topology.queries[read.name]
            if topology.is_speculative(other) != topology.is_speculative(pattern):
                message = f"`{name}` reads `{read.name}`, and only one of them waits for the merge"
                yield Fault(("queries", name, "answer"), message, "write the same answer for both")
    for stream in topology.streams:
        for error in find_chain_errors(_patterns_of(topology, stream)):
            path = ("queries", error.query, "pattern")
            yield Fault(path, error.message, error.hint, is_yaml=False)


def _reading_faults(topology: TopologyFile, name: str, query: DetectorQuery) -> Iterator[Fault]:
    path = ("queries", name, "reads")
    (stream,) = topology.streams_of(query)
    for read in query.reads or ():
        other = topology.queries.get(read)
        if other is None:
            if read != stream:
                known = (stream, *(each for each in topology.queries if each != name))
                message = f"there is no query `{read}`, and it is not the stream"
                yield Fault(path, message, suggest(read, known))
            continue
        if read in topology.streams:
            message = f"`{read}` is a stream and a query"
            yield Fault(path, message, "give the query another name")
        if isinstance(other, JoinQuery):
            message = f"`{read}` is a join, whose rows are not events"
            yield Fault(path, message, "read its sides' streams, or a window, pattern or detector")
        elif [stream] != (found := topology.streams_of(other)):
            message = f"`{read}` finds its results in stream `{found[0]}`"
            yield Fault(path, message, f"read only queries of stream `{stream}`")
        elif topology.is_speculative(other) and not topology.has_speculative_detectors:
            message = f"`{read}` does not wait for the merge, but the detectors do"
            yield Fault(("queries", read, "answer"), message, "write answer: early")


def _circle_faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield a fault for each circle, at the query of the circle that comes first in the file."""
    reads = {name: [*queries_read(topology, query)] for name, query in topology.queries.items()}
    while True:
        try:
            TopologicalSorter(reads).prepare()
            return
        except CycleError as found:
            circle: list[str] = found.args[1][::-1]  # Each query reads the one after it.
        first = next(name for name in reads if name in circle)
        at = circle.index(first)
        circle = [*circle[at:], *circle[1 : at + 1]]
        way = " reads ".join(f"`{each}`" for each in circle)
        yield Fault(("queries", first, "reads"), f"reads itself: {way}", "remove one of them")
        reads[first].remove(circle[1])


def _place_faults(topology: TopologyFile) -> Iterator[Fault]:
    """Yield a fault for each kind of query that detectors read but that runs elsewhere.

    Windows and patterns must run before the detectors that read them, in the same stage.
    """
    for kind in (each for each in topology.read_operators if each in (WINDOW, PATTERN)):
        name, read = next(
            (name, read)
            for name, query in topology.queries.items()
            for read, each in queries_read(topology, query).items()
            if each.kind == kind
        )
        path = ("queries", name, "reads")
        if topology.has_speculative_detectors:
            message = f"`{read}` is a {kind}, which waits for the merge, but detectors do not"
            yield Fault(path, message, "write answer: early for all detectors")
        else:
            for stage in topology.stages:
                if DETECTOR in stage.operators and kind not in stage.operators:
                    message = f"`{read}` runs in another stage than `{stage.name}`"
                    remedy = f"join them: {kind}+{stage.name}"
                    yield Fault(("stages",), message, remedy)
